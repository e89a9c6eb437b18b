-- Runs of the job that come before in line.
SELECT l.id, r.origin, r.wait, r.attempts + r.lost > 0
FROM live AS l CROSS JOIN runs AS r ON r.seq = l.seq
WHERE l.job_id = ?1 AND (l.order_at, l.id) < (?2, ?3) AND r.origin NOT IN (6, 8)
ORDER BY l.order_at, l.id LIMIT 64
