-- Runs that wait for other jobs, by a definition that has changed.
SELECT seq, id, job_id, order_at, wait FROM runs INDEXED BY runs_waiting WHERE job_id = ?1 AND wait = 2 AND wait <> 0
