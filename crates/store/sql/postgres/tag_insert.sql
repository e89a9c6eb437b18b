-- The tags of jobs that this transaction has written. A row of a deleted job of the same name is
-- replaced.
INSERT INTO job_tags (tenant_id, tag, name, job_id)
SELECT j.tenant_id, u.tag, j.name, j.id
FROM unnest($1::uuid[], $2::text[]) AS u (job_id, tag)
JOIN jobs j ON j.id BETWEEN u.job_id AND u.job_id AND j.xmin = pg_current_xact_id()::xid
ON CONFLICT (tenant_id, tag, name) DO UPDATE SET job_id = excluded.job_id
