-- The present version of a job, as it was just written. ?2 when, ?3 who, ?4 the fields that became others.
INSERT INTO job_versions (job_id, version, name, state, definition, changed_at, changed_by, changed)
SELECT id, version, name, state, definition, ?2, ?3, ?4 FROM jobs WHERE id = ?1
ON CONFLICT (job_id, version) DO NOTHING
