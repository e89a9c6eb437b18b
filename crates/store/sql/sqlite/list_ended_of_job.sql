-- Ended runs of a job, newest first.
SELECT id, job_id, origin, outcome FROM history INDEXED BY history_job
WHERE id >= ?1 AND id < ?2 AND job_id = ?3
ORDER BY id DESC
