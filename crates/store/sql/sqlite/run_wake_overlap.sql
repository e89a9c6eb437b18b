-- The first in line of a job whose run has ended.
UPDATE runs SET wait = 0, wait_until = NULL
WHERE id = (SELECT id FROM runs WHERE job_id = ?1 AND wait = 1 ORDER BY order_at, id LIMIT 1)
