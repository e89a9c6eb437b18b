-- The name that a job had in a version, or its last one.
SELECT coalesce((SELECT v.name FROM job_versions v WHERE v.job_id = j.id AND v.version = ?2), j.name)
FROM jobs j WHERE j.id = ?1
