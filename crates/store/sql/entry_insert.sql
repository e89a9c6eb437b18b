-- A new entry of a tenant and an owner that exist, unless its name or id is taken.
INSERT INTO identities (id, kind, tenant_id, name, owner_id, expires_at, body, version, created_at, updated_at)
SELECT $1, $2, $3, $4, $5, $6, $7, 1, {now}, {now}
WHERE ($2 = 1 OR EXISTS (SELECT 1 FROM identities WHERE id = $3 AND kind = 1))
    AND ($5 IS NULL OR EXISTS (SELECT 1 FROM identities WHERE id = $5 AND kind = 2 AND tenant_id = $3))
ON CONFLICT DO NOTHING
RETURNING version, created_at, updated_at
