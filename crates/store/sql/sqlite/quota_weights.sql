-- The tenants that have another weight than usual (?1).
SELECT tenant_id, weight FROM quotas WHERE weight <> ?1 ORDER BY tenant_id
