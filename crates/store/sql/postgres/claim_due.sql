-- Whether a run that any node may have is due within $1, whoever holds it; and the time.
WITH RECURSIVE lanes (tenant_id, priority, first) AS (
    (
        SELECT tenant_id, priority, due_at FROM runs
        WHERE wait = 0 AND place IS NULL
        ORDER BY tenant_id, priority, due_at LIMIT 1
    )
    UNION ALL
    SELECT n.tenant_id, n.priority, n.due_at
    FROM lanes l
    CROSS JOIN LATERAL (
        SELECT tenant_id, priority, due_at FROM runs
        WHERE wait = 0 AND place IS NULL AND (tenant_id, priority) > (l.tenant_id, l.priority)
        ORDER BY tenant_id, priority, due_at LIMIT 1
    ) AS n
)
SELECT EXISTS (SELECT 1 FROM lanes WHERE first <= clock() + $1::bigint) AS due, clock() AS now
