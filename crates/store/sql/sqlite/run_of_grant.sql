-- The run of a valid claim.
SELECT id, job_id, tenant_id, order_at, attempts, lost, cancel_code IS NOT NULL, lane
FROM runs WHERE seq = ?1 AND turn = ?2 AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = runs.seq)
