-- What ended long ago, of one job.
SELECT r.seq, r.id FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq
WHERE r.job_id = ?1 AND e.finished_at < CASE WHEN e.outcome IN (2, 4) THEN ?3 ELSE ?2 END
ORDER BY r.id LIMIT ?4
