-- The run waits for something or goes back as it was, without its holder.
UPDATE runs SET wait = ?4, wait_until = ?5, turn = turn + 1, node_id = NULL, fence = NULL
WHERE id = ?1 AND turn = ?2 AND node_id = ?3
RETURNING job_id, tenant_id
