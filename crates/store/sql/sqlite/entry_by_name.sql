-- The entry of a name.
SELECT body, version, created_at, updated_at FROM identities WHERE tenant_id = ?1 AND kind = ?2 AND name = ?3
