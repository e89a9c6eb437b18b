-- What a tenant may have that this very transaction has written.
INSERT INTO quotas (tenant_id, max_jobs, max_concurrent)
SELECT $1::uuid, $2::bigint, $3::bigint
FROM identities WHERE id = $1 AND xmin = pg_current_xact_id()::xid
ON CONFLICT (tenant_id) DO UPDATE SET max_jobs = excluded.max_jobs, max_concurrent = excluded.max_concurrent
