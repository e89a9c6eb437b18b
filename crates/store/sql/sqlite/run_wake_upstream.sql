-- Runs that waited for a job that has ended. They stood aside meanwhile and get in line anew (?2): whoever has begun
-- since is before them.
UPDATE runs INDEXED BY runs_waiting SET wait = 0, wait_until = NULL, order_at = max(order_at, ?2)
WHERE wait = 2 AND wait <> 0 AND job_id IN (SELECT job_id FROM upstream WHERE depends_on = ?1)
