-- Tenants that have a chain.
SELECT tenant_id FROM audit_chains ORDER BY tenant_id
