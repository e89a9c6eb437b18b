-- Ended runs of a job that began late or never, latest first and before a place.
SELECT l.id, l.began, e.outcome, e.attempts + e.lost
FROM late AS l CROSS JOIN ends AS e ON e.seq = l.seq
WHERE l.job_id = ?1 AND (l.began, l.id) < (?2, ?3)
ORDER BY l.began DESC, l.id DESC
