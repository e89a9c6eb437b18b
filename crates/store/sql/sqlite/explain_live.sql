-- What a run that has not ended waits for.
SELECT seq, job_id, tenant_id, lane, due_at, order_at, wait, wait_until, cancel_code, cancel_text
FROM runs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = runs.seq)
