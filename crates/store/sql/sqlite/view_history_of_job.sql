-- Ended runs of a job, newest first.
SELECT * FROM history WHERE job_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3
