-- A changed entry, if it is the one that the change is based on and its name is free.
UPDATE identities SET name = $4, expires_at = $6::bigint, body = $7, version = version + 1, updated_at = clock()
WHERE id = $1 AND kind = $2::smallint AND tenant_id = $3 AND owner_id IS NOT DISTINCT FROM $5::uuid AND version = $8
    AND NOT EXISTS (
        SELECT 1 FROM identities o WHERE o.tenant_id = $3 AND o.kind = $2::smallint AND o.name = $4 AND o.id <> $1
    )
RETURNING version, created_at, updated_at
