-- The (tenant, lane) pairs that have work, and the first time in each, by one step in the index. $1 node.
WITH RECURSIVE lanes (tenant_id, lane, first) AS (
    (
        SELECT tenant_id, lane, due_at FROM runs
        WHERE wait = 0 AND place IS NULL AND EXISTS (SELECT 1 FROM nodes WHERE id = $1 AND NOT dead)
        ORDER BY tenant_id, lane, due_at LIMIT 1
    )
    UNION ALL
    SELECT n.tenant_id, n.lane, n.due_at
    FROM lanes l
    CROSS JOIN LATERAL (
        SELECT tenant_id, lane, due_at FROM runs
        WHERE wait = 0 AND place IS NULL AND (tenant_id, lane) > (l.tenant_id, l.lane)
        ORDER BY tenant_id, lane, due_at LIMIT 1
    ) AS n
)
