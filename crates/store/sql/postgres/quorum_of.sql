-- How far runs are acknowledged by the schedulers that are registered, in the present epoch.
WITH schedulers AS MATERIALIZED (SELECT id FROM nodes WHERE gone_at IS NULL AND 'SCHEDULER' = ANY (roles))
SELECT
    u.id, n.id IS NOT NULL AS led,
    (
        SELECT count(*) FROM acknowledgements a
        WHERE a.run_id = u.id AND a.epoch = l.epoch AND a.node_id IN (SELECT id FROM schedulers)
    ) AS acknowledged,
    (SELECT count(*) FROM schedulers) AS schedulers
FROM unnest($1::uuid[]) AS u (id)
CROSS JOIN roles l
LEFT JOIN nodes n ON n.id = l.node_id AND NOT n.dead
WHERE l.name = 'LEADER'
