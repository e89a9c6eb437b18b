-- Live runs of a tenant, newest first.
SELECT id, job_id, origin, due_at, wait, node_id FROM runs
WHERE id >= ?1 AND id < ?2 AND tenant_id = ?3
ORDER BY id DESC
