-- Ticks whose time has not come (?2) and that nobody tried or cancelled, held or not, after the given one (?3).
DELETE FROM runs
WHERE job_id = ?1 AND scheduled_for > max(?2, ?3) AND origin IN (1, 2) AND attempts = 0 AND lost = 0 AND cancel_code IS NULL
RETURNING scheduled_for, node_id, tenant_id
