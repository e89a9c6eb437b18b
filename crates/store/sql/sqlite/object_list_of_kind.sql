-- All tenants' objects of a kind, by id.
SELECT id, tenant_id, kind, name, body, version, created_at, changed_at FROM objects
WHERE kind = ?1 AND id > ?2
ORDER BY id
LIMIT ?3
