-- Whether a run has ended already, and under which fence.
SELECT ends.outcome, ends.fence FROM runs CROSS JOIN ends ON ends.seq = runs.seq WHERE runs.id = ?1
