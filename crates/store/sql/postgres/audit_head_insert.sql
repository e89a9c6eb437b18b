-- The beginning of a tenant's chain.
INSERT INTO audit_chains (tenant_id, anchor_number, anchor_hash, head_number, head_hash)
VALUES ($1, 0, $2, 0, $2)
ON CONFLICT (tenant_id) DO NOTHING
