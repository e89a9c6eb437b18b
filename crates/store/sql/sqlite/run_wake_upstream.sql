-- Runs that waited for a job that has ended.
UPDATE runs INDEXED BY runs_waiting SET wait = 0, wait_until = NULL
WHERE wait = 2 AND wait <> 0 AND job_id IN (SELECT job_id FROM upstream WHERE depends_on = ?1)
