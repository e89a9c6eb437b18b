-- The first runs in a line of a job, as many as may go on. The index has only runs that wait.
SELECT seq, id, job_id, order_at, wait FROM runs INDEXED BY runs_waiting
WHERE job_id = ?1 AND wait = ?3 AND wait <> 0 ORDER BY order_at, id LIMIT ?2
