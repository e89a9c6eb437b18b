-- Runs that wait for other jobs, by a definition that has changed.
UPDATE runs INDEXED BY runs_waiting SET wait = 0, wait_until = NULL WHERE job_id = ?1 AND wait = 2 AND wait <> 0
