-- What a tenant may have.
INSERT INTO quotas (tenant_id, max_jobs, max_concurrent) VALUES (?1, ?2, ?3)
ON CONFLICT (tenant_id) DO UPDATE SET max_jobs = excluded.max_jobs, max_concurrent = excluded.max_concurrent
