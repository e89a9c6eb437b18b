-- Runs whose time for a decision is over, and their jobs.
SELECT id, job_id FROM runs WHERE wait <> 0 AND wait = 7 AND wait_until <= ?1 ORDER BY id LIMIT ?2
