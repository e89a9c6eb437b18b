-- Dead letters of a tenant, newest first.
SELECT e.id, r.job_id, r.origin, r.due_at, r.wait, 0, e.outcome
FROM ends AS e INDEXED BY ends_dead CROSS JOIN runs AS r ON r.seq = e.seq
WHERE e.id >= ?1 AND e.id < ?2 AND e.tenant_id = ?3 AND e.dead_letter = 1
ORDER BY e.id DESC
