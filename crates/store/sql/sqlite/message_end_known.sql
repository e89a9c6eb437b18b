-- Whether a message of a queue has ended already, and under which token.
SELECT ends.outcome, ends.fence, ends.attempt_end FROM runs CROSS JOIN ends ON ends.seq = runs.seq WHERE runs.id = ?1 AND runs.job_id = ?2
