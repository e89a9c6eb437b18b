-- A run that has not ended, and where it is to be found.
SELECT seq, job_id, tenant_id, lane, due_at, order_at, attempts, lost, wait
FROM runs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = runs.seq)
