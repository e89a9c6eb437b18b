-- The old beginning of a chain.
DELETE FROM audit WHERE tenant_id = ?1 AND number IS NOT NULL AND number <= ?2
