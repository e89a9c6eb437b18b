-- The tenants that may have only so many runs at work, or have another weight than usual (?1).
SELECT tenant_id, max_concurrent, weight FROM quotas WHERE max_concurrent IS NOT NULL OR weight <> ?1
