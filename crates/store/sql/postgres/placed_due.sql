-- Whether a run with a placement request that a node satisfies is due soon, as far as can be seen
-- without the gate. $1 how soon, $2 node, $3 the epoch that it believes to lead in.
WITH RECURSIVE
offer AS MATERIALIZED (
    SELECT n.labels || CASE WHEN EXISTS (
        SELECT 1 FROM roles l WHERE l.name = 'LEADER' AND l.node_id = n.id AND l.epoch = $3::bigint
    ) THEN ARRAY['LEADER_ONLY'] ELSE '{}' END || coalesce(
        (SELECT array_agg('SHARD:' || s.shard_id::text) FROM shard_owners s WHERE s.node_id = n.id), '{}'
    ) AS words
    FROM nodes n WHERE n.id = $2 AND NOT n.dead AND NOT n.draining
),
places (place) AS (
    (SELECT place FROM runs WHERE wait = 0 AND place IS NOT NULL ORDER BY place LIMIT 1)
    UNION ALL
    SELECT n.place
    FROM places p
    CROSS JOIN LATERAL (
        SELECT place FROM runs WHERE wait = 0 AND place IS NOT NULL AND place > p.place ORDER BY place LIMIT 1
    ) AS n
)
SELECT EXISTS (
    SELECT 1
    FROM places p
    CROSS JOIN offer o
    CROSS JOIN LATERAL (
        SELECT 1 FROM runs r
        WHERE r.wait = 0 AND r.place = p.place AND r.due_at <= clock() + $1::bigint
        LIMIT 1
    ) AS r
    WHERE p.place <@ o.words
)
