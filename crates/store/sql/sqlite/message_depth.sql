-- How many messages of a queue have not ended, counted up to ?2.
SELECT count(*) FROM (SELECT 1 FROM live WHERE job_id = ?1 LIMIT ?2)
