-- Gives something, unless that would make a role contain itself. $6 is the queue whose messages it is about.
INSERT INTO awards (id, tenant_id, to_id, role_id, privilege, queue_id)
SELECT $1, $2, $3, $4, $5, $6
WHERE EXISTS (SELECT 1 FROM identities WHERE id = $3 AND kind IN (2, 3) AND tenant_id = $2)
    AND ($4 IS NULL OR EXISTS (SELECT 1 FROM identities WHERE id = $4 AND kind = 3 AND tenant_id = $2))
    AND ($6 IS NULL OR EXISTS (SELECT 1 FROM jobs WHERE id = $6 AND tenant_id = $2 AND state <> 'DELETED'))
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
