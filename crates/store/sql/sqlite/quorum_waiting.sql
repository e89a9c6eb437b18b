-- Runs that wait for a quorum.
SELECT seq, id, job_id, order_at, wait FROM runs WHERE wait = 3
