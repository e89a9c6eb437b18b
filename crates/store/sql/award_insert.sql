-- Gives something, unless that would make a role contain itself.
INSERT INTO awards (id, tenant_id, to_id, role_id, privilege)
SELECT $1, $2, $3, $4, $5
WHERE EXISTS (SELECT 1 FROM identities WHERE id = $3 AND kind IN (2, 3) AND tenant_id = $2)
    AND ($4 IS NULL OR EXISTS (SELECT 1 FROM identities WHERE id = $4 AND kind = 3 AND tenant_id = $2))
    AND NOT EXISTS (
        WITH RECURSIVE reach (id) AS (
            SELECT $4
            UNION
            SELECT a.role_id FROM awards AS a JOIN reach AS r ON a.to_id = r.id WHERE a.role_id IS NOT NULL
        )
        SELECT 1 FROM reach WHERE id = $3
    )
ON CONFLICT DO NOTHING
RETURNING id
