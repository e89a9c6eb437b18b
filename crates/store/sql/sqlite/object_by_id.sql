-- An object by its id.
SELECT id, tenant_id, kind, name, body, version, created_at, changed_at FROM objects WHERE id = ?1
