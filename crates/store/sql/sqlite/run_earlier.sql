-- Runs of the job whose turn comes before.
SELECT id, origin, wait FROM runs INDEXED BY runs_job
WHERE job_id = ?1 AND (order_at, id) < (?2, ?3) ORDER BY order_at, id LIMIT 64
