-- The run waits for something or goes back as it was, without its holder.
UPDATE runs SET wait = ?5, wait_until = ?6, turn = turn + 1, node_id = NULL, fence = NULL
WHERE id = ?1 AND turn = ?2 AND node_id = ?3 AND fence = ?4
RETURNING job_id, tenant_id, cancel_code IS NOT NULL
