-- Runs past their retention, oldest first. Failures are kept longer, and some jobs have a retention
-- of their own.
SELECT r.seq, r.id FROM runs AS r INDEXED BY runs_id CROSS JOIN ends AS e ON e.seq = r.seq
WHERE r.id < ?1
    AND e.finished_at < CASE WHEN e.outcome IN (2, 4) THEN ?3 ELSE ?2 END
    AND r.job_id NOT IN (SELECT jobs.id FROM jobs WHERE own_retention)
ORDER BY r.id LIMIT ?4
