-- Runs of a tenant that ended otherwise than completed, newest first.
SELECT e.id, r.job_id, r.origin, r.due_at, r.wait, 0, e.outcome
FROM ends AS e INDEXED BY ends_tenant CROSS JOIN runs AS r ON r.seq = e.seq
WHERE e.id >= ?1 AND e.id < ?2 AND e.tenant_id = ?3 AND e.outcome = ?4 AND e.outcome <> 1
ORDER BY e.id DESC
