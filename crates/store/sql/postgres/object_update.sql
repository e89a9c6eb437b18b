-- An object, if it is the one that the change is based on and its name is free.
UPDATE objects SET name = $3, body = $4, version = version + 1, changed_at = clock()
WHERE id = $1 AND tenant_id = $2 AND version = $5 AND NOT EXISTS (
    SELECT 1 FROM objects other
    WHERE other.tenant_id = objects.tenant_id AND other.kind = objects.kind AND other.name = $3 AND other.id <> $1
)
RETURNING id, tenant_id, kind, name, body, version, created_at, changed_at
