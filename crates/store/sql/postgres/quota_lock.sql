-- Whoever makes jobs of a tenant that may have only so many is alone with its count.
SELECT 1 FROM quotas WHERE tenant_id = ANY ($1::uuid[]) AND max_jobs IS NOT NULL ORDER BY tenant_id FOR UPDATE
