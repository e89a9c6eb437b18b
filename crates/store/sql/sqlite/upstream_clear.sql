-- The edges of a job, before they are written anew.
DELETE FROM upstream WHERE job_id = ?1
