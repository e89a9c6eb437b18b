-- The end of a tenant's chain, if it is the one that was seen.
UPDATE audit_chains SET head_number = ?3, head_hash = ?4 WHERE tenant_id = ?1 AND head_number = ?2
