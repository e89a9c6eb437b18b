-- Ended runs of a job that began, newest first and before an id.
SELECT r.id, e.started_at, e.outcome, e.attempts + e.lost
FROM runs AS r INDEXED BY runs_job CROSS JOIN ends AS e ON e.seq = r.seq
WHERE r.job_id = ?1 AND r.id < ?2 AND e.started_at IS NOT NULL
ORDER BY r.id DESC
