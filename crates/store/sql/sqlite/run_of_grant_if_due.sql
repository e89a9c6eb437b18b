-- The run of a grant that is not over, if its time has come.
SELECT id, job_id, origin, order_at
FROM runs
WHERE seq = ?1 AND turn = ?2 AND due_at <= ?3 AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = runs.seq)
