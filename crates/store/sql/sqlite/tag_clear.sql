-- The tags of a job, before they are written anew.
DELETE FROM job_tags WHERE job_id = ?1
