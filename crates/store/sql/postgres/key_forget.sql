-- Keys that have been of no use for long.
WITH gone AS (
    DELETE FROM identities WHERE id IN (
        SELECT id FROM identities WHERE expires_at < clock() - $1::bigint ORDER BY expires_at LIMIT $2::bigint
    )
    RETURNING 1
)
SELECT count(*) FROM gone
