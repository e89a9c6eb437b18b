-- Requests that nobody sends again.
WITH gone AS (
    DELETE FROM requests WHERE (tenant_id, key) IN (
        SELECT tenant_id, key FROM requests WHERE begun_at < clock() - $1::bigint ORDER BY begun_at LIMIT $2::bigint
    )
    RETURNING key
)
SELECT count(*) FROM gone
