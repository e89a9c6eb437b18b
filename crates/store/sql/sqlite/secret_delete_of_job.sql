-- The secrets of a job or an object that is gone.
DELETE FROM secrets WHERE tenant_id = ?1 AND job_id = ?2
