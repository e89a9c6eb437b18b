-- A run that waits for its parts.
SELECT seq, id, job_id, order_at, wait FROM runs WHERE id = ?1 AND wait = 4
