-- Runs that waited for a job that has ended.
SELECT seq, id, job_id, order_at, wait FROM runs INDEXED BY runs_waiting
WHERE wait = 2 AND wait <> 0 AND job_id IN (SELECT job_id FROM upstream WHERE depends_on = ?1)
