-- The versions of jobs that this transaction has written. $2 the actor, $4 the changed fields.
INSERT INTO job_versions (job_id, version, name, state, definition, changed_at, changed_by, changed)
SELECT j.id, j.version, j.name, j.state, j.definition, j.updated_at, $2, u.changed
FROM unnest($1::uuid[], $3::integer[], $4::text[]) AS u (job_id, version, changed)
JOIN jobs j ON j.id BETWEEN u.job_id AND u.job_id AND j.version = u.version
WHERE j.xmin = pg_current_xact_id()::xid
ON CONFLICT (job_id, version) DO NOTHING
