-- Dead letters of a tenant, newest first.
SELECT id, job_id, origin, outcome FROM history INDEXED BY history_dead
WHERE id >= ?1 AND id < ?2 AND tenant_id = ?3 AND dead_letter = 1
ORDER BY id DESC
