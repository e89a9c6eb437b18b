-- Latest outcome of a job.
SELECT outcome, finished_at, succeeded_at FROM last_ends WHERE job_id = ?1
