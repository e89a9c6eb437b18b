-- Runs of a tenant that wait for their parts.
SELECT r.id, r.job_id, r.origin, r.due_at, r.wait, 0, NULL
FROM runs AS r INDEXED BY runs_waiting
WHERE r.wait <> 0 AND r.wait = 4 AND r.tenant_id = ?1
