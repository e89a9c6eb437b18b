-- Entries by name, of everybody or of one user.
SELECT body, version, created_at, updated_at FROM identities
WHERE tenant_id = $1 AND kind = $2 AND name > $3 AND ($4::uuid IS NULL OR owner_id = $4)
ORDER BY name LIMIT $5::bigint
