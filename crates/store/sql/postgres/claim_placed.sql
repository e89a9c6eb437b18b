-- Hands runs that ask for something to a node that offers it, under the gate and a share of the lead: fair between tenants,
-- then by priority with ageing, then by time. $1 node, $2 how many due runs, $3 how many that are due soon, $4 how soon,
-- $5 the most a tenant may hold, $6 the epoch that the node believes to lead in.
WITH RECURSIVE
clock AS MATERIALIZED (SELECT clock() AS now),
offer AS MATERIALIZED (
    SELECT n.labels || CASE WHEN EXISTS (
        SELECT 1 FROM roles l WHERE l.name = 'LEADER' AND l.node_id = n.id AND l.epoch = $6::bigint
    ) THEN ARRAY['LEADER_ONLY'] ELSE '{}' END || coalesce(
        (SELECT array_agg('SHARD:' || s.shard_id::text) FROM shard_owners s WHERE s.node_id = n.id), '{}'
    ) AS words
    FROM nodes n WHERE n.id = $1 AND NOT n.buried AND NOT n.draining
),
lanes (place, tenant_id, priority) AS (
    (
        SELECT place, tenant_id, priority FROM runs
        WHERE wait = 0 AND place IS NOT NULL
        ORDER BY place, tenant_id, priority LIMIT 1
    )
    UNION ALL
    SELECT n.place, n.tenant_id, n.priority
    FROM lanes l
    CROSS JOIN LATERAL (
        SELECT place, tenant_id, priority FROM runs
        WHERE wait = 0 AND place IS NOT NULL AND (place, tenant_id, priority) > (l.place, l.tenant_id, l.priority)
        ORDER BY place, tenant_id, priority LIMIT 1
    ) AS n
),
open AS MATERIALIZED (SELECT l.* FROM lanes l CROSS JOIN offer o WHERE l.place <@ o.words),
limits AS MATERIALIZED (SELECT tenant_id, max_concurrent AS n FROM quotas WHERE max_concurrent IS NOT NULL),
found AS MATERIALIZED (
    SELECT r.*
    FROM open l
    CROSS JOIN LATERAL (
        SELECT
            r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.shard, r.due_at, r.priority, r.origin,
            r.coalesced, r.ignore_dependencies, r.parameters, r.attempts, r.lost, r.turn, r.place
        FROM runs r
        WHERE r.wait = 0 AND r.place = l.place AND r.tenant_id = l.tenant_id AND r.priority = l.priority
            AND r.due_at <= (SELECT now FROM clock) + $4::bigint
            AND (r.id, r.turn) NOT IN (SELECT unnest(c.run_ids), unnest(c.turns) FROM claims c)
        ORDER BY r.due_at
        LIMIT $2::bigint + $3::bigint
    ) AS r
),
held AS MATERIALIZED (
    SELECT r.tenant_id, count(*) AS n
    FROM claims c
    CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
    JOIN runs r ON r.id BETWEEN h.id AND h.id AND r.turn = h.turn
    WHERE EXISTS (SELECT 1 FROM found)
    GROUP BY r.tenant_id
),
due AS (
    SELECT
        f.*, f.due_at - f.priority * 60000000::bigint AS rank, coalesce(h.n, 0) + row_number() OVER (
            PARTITION BY f.tenant_id ORDER BY f.due_at - f.priority * 60000000::bigint, f.due_at, f.id
        ) AS nth
    FROM found f
    LEFT JOIN held h ON h.tenant_id = f.tenant_id
    WHERE f.due_at <= (SELECT now FROM clock)
),
chosen AS MATERIALIZED (
    (
        SELECT
            id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, priority, origin, coalesced,
            ignore_dependencies, parameters, attempts, lost, turn, place
        FROM due
        WHERE ($5::integer IS NULL OR nth <= $5)
            AND NOT EXISTS (SELECT 1 FROM limits l WHERE l.tenant_id = due.tenant_id AND due.nth > l.n)
        ORDER BY nth, rank, due_at, id
        LIMIT $2::bigint
    )
    UNION ALL
    (
        SELECT * FROM found
        WHERE due_at > (SELECT now FROM clock) AND tenant_id NOT IN (SELECT tenant_id FROM limits)
        ORDER BY due_at, id
        LIMIT $3::bigint
    )
),
base AS MATERIALIZED (SELECT fence - $2::bigint - $3::bigint AS fence FROM gate),
claim AS (
    INSERT INTO claims (id, node_id, claimed_at, run_ids, turns)
    SELECT (SELECT fence FROM base), $1, (SELECT now FROM clock), array_agg(id), array_agg(turn)
    FROM chosen
    HAVING count(*) > 0
)
SELECT
    id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, (SELECT fence FROM base) + row_number() OVER () AS fence, place
FROM chosen
