-- Calls runs in line as far as their pools have places for them, in their order. A run that was called longer ago than ?1
-- has not taken its place and lets others pass, and so does one that needs more than the whole pool.
UPDATE pool_runs SET called_at = ?2
WHERE called_at IS NULL AND turn IS NULL AND run_id IN (
    SELECT w.run_id FROM (
        SELECT
            p.run_id, p.tenant_id, p.pool,
            sum(p.weight) OVER (PARTITION BY p.tenant_id, p.pool ORDER BY p.priority DESC, p.due_at, p.run_id) AS needed
        FROM pool_runs AS p
        WHERE p.turn IS NULL AND (p.called_at IS NULL OR p.called_at > ?2 - ?1) AND p.weight <= (
            SELECT o.body ->> 'size' FROM objects AS o
            WHERE o.tenant_id = p.tenant_id AND o.kind = 'POOL' AND o.name = p.pool
        )
    ) AS w
    WHERE w.needed + (
        SELECT coalesce(sum(u.weight), 0) FROM pool_runs AS u
        WHERE u.tenant_id = w.tenant_id AND u.pool = w.pool AND u.turn IS NOT NULL
    ) <= (
        SELECT o.body ->> 'size' FROM objects AS o
        WHERE o.tenant_id = w.tenant_id AND o.kind = 'POOL' AND o.name = w.pool
    )
)
