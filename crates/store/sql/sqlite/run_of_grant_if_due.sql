-- The run of a valid claim, if its time has come, and whether its start was recorded.
SELECT id, job_id, origin, order_at, begun IS turn + 1
FROM runs
WHERE seq = ?1 AND turn = ?2 AND due_at <= ?3 AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = runs.seq)
