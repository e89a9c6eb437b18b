-- The beginning of a tenant's chain.
INSERT OR IGNORE INTO audit_chains (tenant_id, anchor_number, anchor_hash, head_number, head_hash)
VALUES (?1, 0, zeroblob(32), 0, zeroblob(32))
