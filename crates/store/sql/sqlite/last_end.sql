-- What the runs of a job came to last.
SELECT outcome, finished_at, succeeded_at FROM last_ends WHERE job_id = ?1
