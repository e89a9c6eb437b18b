-- Audit rows of job definitions. They go by rows that this transaction has written.
INSERT INTO audit (tenant_id, at, actor, kind, job_id, outcome, details, runs)
SELECT
    j.tenant_id, clock(), $2,
    CASE WHEN u.created THEN 'JOB_CREATED' WHEN j.state = 'DELETED' THEN 'JOB_DELETED' ELSE 'JOB_MODIFIED' END,
    j.id, 'DONE', u.details, ''
FROM unnest($1::uuid[], $3::integer[], $4::boolean[], $5::text[]) AS u (job_id, version, created, details)
JOIN jobs j ON j.id = u.job_id AND j.version = u.version
WHERE j.xmin = pg_current_xact_id()::xid
