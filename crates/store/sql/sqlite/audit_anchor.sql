-- The chain of a tenant begins behind a row that goes.
UPDATE audit_chains
SET anchor_number = ?2,
    anchor_hash = (SELECT hash FROM audit WHERE tenant_id = ?1 AND number = ?2),
    anchor_at = (SELECT at FROM audit WHERE tenant_id = ?1 AND number = ?2)
WHERE tenant_id = ?1
