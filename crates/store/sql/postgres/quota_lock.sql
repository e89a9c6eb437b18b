-- A transaction that creates jobs of a tenant with a job limit locks its count.
SELECT 1 FROM quotas WHERE tenant_id = ANY ($1::uuid[]) AND max_jobs IS NOT NULL ORDER BY tenant_id FOR UPDATE
