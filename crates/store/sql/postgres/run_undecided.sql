-- Runs whose time for a decision is over, and their jobs.
SELECT id, job_id FROM runs WHERE wait_until <= clock() AND wait + 0 = 7 ORDER BY id LIMIT $1::bigint
