-- Versions of a job that are too old to be kept.
DELETE FROM job_versions WHERE job_id = ?1 AND version <= ?2
