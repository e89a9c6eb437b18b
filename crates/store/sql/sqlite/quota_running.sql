-- The tenants that may have only so many runs at work.
SELECT tenant_id, max_concurrent FROM quotas WHERE max_concurrent IS NOT NULL
