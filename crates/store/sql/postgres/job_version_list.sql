-- Versions of a job that are older than the given one, newest first.
SELECT job_id, version, name, state, definition, changed_at, changed_by, changed
FROM job_versions WHERE job_id = $1 AND version < $2
ORDER BY version DESC LIMIT $3::bigint
