-- Live runs of a job, newest first.
SELECT id, job_id, origin, due_at, wait, node_id FROM runs
WHERE id >= ?1 AND id < ?2 AND job_id = ?3
ORDER BY id DESC
