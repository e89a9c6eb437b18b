-- Runs that waited long enough.
SELECT seq, id, job_id, order_at, wait FROM runs WHERE wait <> 0 AND wait <> 7 AND wait_until <= ?1
