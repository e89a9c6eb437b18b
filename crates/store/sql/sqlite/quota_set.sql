-- What a tenant may have, and its weight when tenants compete.
INSERT INTO quotas (tenant_id, max_jobs, max_concurrent, weight) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (tenant_id) DO UPDATE
SET max_jobs = excluded.max_jobs, max_concurrent = excluded.max_concurrent, weight = excluded.weight
