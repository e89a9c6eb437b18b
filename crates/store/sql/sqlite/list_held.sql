-- A run of a tenant that a node may hold: an entry of a claim may be over.
SELECT r.id, r.job_id, r.origin, r.due_at, r.wait, q.seq IS NOT NULL, e.outcome
FROM runs AS r
LEFT JOIN ends AS e ON e.seq = r.seq
LEFT JOIN queue AS q ON e.seq IS NULL
    AND q.tenant_id = r.tenant_id AND q.lane = r.lane AND q.due_at = r.due_at AND q.seq = r.seq
WHERE r.seq = ?1 AND r.tenant_id = ?2
