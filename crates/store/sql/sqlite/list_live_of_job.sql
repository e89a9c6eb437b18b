-- Runs of a job that go on, newest first.
SELECT r.id, r.job_id, r.origin, r.due_at, r.wait, q.seq IS NOT NULL OR (r.origin = 7 AND NOT EXISTS (
        SELECT 1 FROM messages AS m WHERE m.seq = r.seq AND m.state = 2
    )), e.outcome
FROM live AS l CROSS JOIN runs AS r ON r.seq = l.seq
LEFT JOIN ends AS e ON e.seq = r.seq
LEFT JOIN queue AS q ON e.seq IS NULL
    AND q.tenant_id = r.tenant_id AND q.lane = r.lane AND q.due_at = r.due_at AND q.seq = r.seq
WHERE l.id >= ?1 AND l.id < ?2 AND l.job_id = ?3
ORDER BY l.id DESC
