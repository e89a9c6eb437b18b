-- Versions of a job that are older than the given one, newest first.
SELECT v.job_id, v.version, v.name, v.state, v.definition, v.changed_at, v.changed_by, v.changed
FROM job_versions v WHERE v.job_id = ?1 AND v.version < ?2
ORDER BY v.version DESC LIMIT ?3
