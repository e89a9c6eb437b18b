-- Ticks that are not due and were never tried, held or not.
DELETE FROM runs
WHERE job_id = ?1 AND order_at > ?2 AND due_at > ?2 AND origin IN (1, 2) AND attempts = 0 AND lost = 0
RETURNING scheduled_for, node_id, tenant_id
