-- Runs that wait for other jobs, by a definition that has changed. They get in line anew (?2).
UPDATE runs INDEXED BY runs_waiting SET wait = 0, wait_until = NULL, order_at = max(order_at, ?2) WHERE job_id = ?1 AND wait = 2 AND wait <> 0
