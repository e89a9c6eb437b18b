-- What a tenant may have that this very transaction has written, and its weight when tenants compete.
INSERT INTO quotas (tenant_id, max_jobs, max_concurrent, weight)
SELECT $1::uuid, $2::bigint, $3::bigint, $4::integer
FROM identities WHERE id = $1 AND xmin = pg_current_xact_id()::xid
ON CONFLICT (tenant_id) DO UPDATE
SET max_jobs = excluded.max_jobs, max_concurrent = excluded.max_concurrent, weight = excluded.weight
