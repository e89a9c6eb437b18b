-- An object by its name.
SELECT id, tenant_id, kind, name, body, version, created_at, changed_at FROM objects WHERE tenant_id = $1 AND kind = $2 AND name = $3
