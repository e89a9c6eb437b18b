-- The old beginning of a tenant's chain goes; the hash of its last row becomes the anchor. The
-- youngest of the old rows stays: it proves the age of those that went.
WITH last AS (
    SELECT max(o.number) AS number FROM (
        SELECT number FROM audit
        WHERE tenant_id = $1 AND number IS NOT NULL
            AND number < coalesce(
                (SELECT min(number) FROM audit WHERE tenant_id = $1 AND number IS NOT NULL AND at >= $2),
                (SELECT max(number) + 1 FROM audit WHERE tenant_id = $1 AND number IS NOT NULL)
            ) - 1
        ORDER BY number LIMIT $3
    ) AS o
),
anchored AS (
    UPDATE audit_chains c SET anchor_number = a.number, anchor_hash = a.hash, anchor_at = a.at
    FROM audit a, last
    WHERE c.tenant_id = $1 AND a.tenant_id = $1 AND a.number = last.number
),
gone AS (
    DELETE FROM audit a USING last WHERE a.tenant_id = $1 AND a.number <= last.number
    RETURNING 1
)
SELECT count(*) FROM gone
