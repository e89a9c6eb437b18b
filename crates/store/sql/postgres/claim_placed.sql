-- Claims runs with a placement request for a node that satisfies it, under the gate and a share of
-- the leadership: fair between tenants by their weights, then by priority with ageing, then by
-- time, for each kind of slot. A lane is ten times its kind of slot, plus a priority. $1 node, $2
-- how many due runs of each kind of slot, $3 how many that are due soon, $4 how soon, $5 the limit
-- of a tenant, $6 the epoch that the node believes to lead in, $7 the waiting time that a point of
-- priority is worth, $8 the weight of a tenant without one, $9 a round: every weight divides it.
WITH RECURSIVE
clock AS MATERIALIZED (SELECT clock() AS now),
want AS MATERIALIZED (SELECT slot - 1 AS slot, n FROM unnest($2::bigint[]) WITH ORDINALITY AS u (n, slot)),
offer AS MATERIALIZED (
    SELECT n.labels || CASE WHEN EXISTS (
        SELECT 1 FROM roles l WHERE l.name = 'LEADER' AND l.node_id = n.id AND l.epoch = $6::bigint
    ) THEN ARRAY['LEADER_ONLY'] ELSE '{}' END || coalesce(
        (SELECT array_agg('SHARD:' || s.shard_id::text) FROM shard_owners s WHERE s.node_id = n.id), '{}'
    ) AS words
    FROM nodes n WHERE n.id = $1 AND NOT n.dead AND NOT n.draining
),
lanes (place, tenant_id, lane) AS (
    (
        SELECT place, tenant_id, lane FROM runs
        WHERE wait = 0 AND place IS NOT NULL
        ORDER BY place, tenant_id, lane LIMIT 1
    )
    UNION ALL
    SELECT n.place, n.tenant_id, n.lane
    FROM lanes l
    CROSS JOIN LATERAL (
        SELECT place, tenant_id, lane FROM runs
        WHERE wait = 0 AND place IS NOT NULL AND (place, tenant_id, lane) > (l.place, l.tenant_id, l.lane)
        ORDER BY place, tenant_id, lane LIMIT 1
    ) AS n
),
open AS MATERIALIZED (SELECT l.* FROM lanes l CROSS JOIN offer o WHERE l.place <@ o.words),
shares AS MATERIALIZED (
    SELECT l.tenant_id, q.max_concurrent AS n, coalesce(q.weight, $8::integer) AS weight
    FROM (SELECT DISTINCT tenant_id FROM open) AS l
    LEFT JOIN quotas q ON q.tenant_id = l.tenant_id
),
found AS MATERIALIZED (
    SELECT r.*, w.slot
    FROM open l
    JOIN want w ON w.slot = l.lane / 10
    CROSS JOIN LATERAL (
        SELECT
            r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.shard, r.due_at, r.lane, r.origin,
            r.coalesced, r.ignore_dependencies, r.parameters, r.attempts, r.lost, r.turn, r.place
        FROM runs r
        WHERE r.wait = 0 AND r.place = l.place AND r.tenant_id = l.tenant_id AND r.lane = l.lane
            AND r.due_at <= (SELECT now FROM clock) + $4::bigint
            AND (r.id, r.turn) NOT IN (SELECT unnest(c.run_ids), unnest(c.turns) FROM claims c)
        ORDER BY r.due_at
        LIMIT w.n + $3::bigint
    ) AS r
),
held AS MATERIALIZED (
    SELECT r.tenant_id, r.lane / 10 AS slot, count(*) AS n
    FROM claims c
    CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
    JOIN runs r ON r.id BETWEEN h.id AND h.id AND r.turn = h.turn
    WHERE EXISTS (SELECT 1 FROM found)
    GROUP BY r.tenant_id, r.lane / 10
),
ranked AS MATERIALIZED (
    SELECT f.*, f.due_at - f.lane % 10 * $7::bigint AS rank
    FROM found f
    WHERE f.due_at <= (SELECT now FROM clock)
),
due AS MATERIALIZED (
    SELECT
        r.*,
        (coalesce(h.n, 0) + row_number() OVER line) * $9::bigint / s.weight AS turn_at,
        coalesce((SELECT sum(a.n) FROM held a WHERE a.tenant_id = r.tenant_id), 0) + row_number() OVER whole AS nth,
        least(s.n, $5::integer) AS most
    FROM ranked r
    JOIN shares s ON s.tenant_id = r.tenant_id
    LEFT JOIN held h ON h.tenant_id = r.tenant_id AND h.slot = r.slot
    WINDOW
        line AS (PARTITION BY r.tenant_id, r.slot ORDER BY r.rank, r.due_at, r.id),
        whole AS (PARTITION BY r.tenant_id ORDER BY r.rank, r.due_at, r.id)
),
chosen AS MATERIALIZED (
    (
        SELECT
            d.id, d.job_id, d.tenant_id, d.job_version, d.scheduled_for, d.shard, d.due_at, d.lane, d.origin, d.coalesced,
            d.ignore_dependencies, d.parameters, d.attempts, d.lost, d.turn, d.place
        FROM want w
        CROSS JOIN LATERAL (
            SELECT d.* FROM due d
            WHERE d.slot = w.slot AND (d.most IS NULL OR d.nth <= d.most)
            ORDER BY d.turn_at, d.rank, d.due_at, d.id
            LIMIT w.n
        ) AS d
    )
    UNION ALL
    (
        SELECT
            id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, lane, origin, coalesced,
            ignore_dependencies, parameters, attempts, lost, turn, place
        FROM found
        WHERE due_at > (SELECT now FROM clock)
            AND $5::integer IS NULL AND tenant_id NOT IN (SELECT tenant_id FROM shares WHERE n IS NOT NULL)
        ORDER BY due_at, id
        LIMIT $3::bigint
    )
),
base AS MATERIALIZED (SELECT fence - (SELECT sum(n) FROM want)::bigint - $3::bigint AS fence FROM gate),
claim AS (
    INSERT INTO claims (id, node_id, claimed_at, run_ids, turns)
    SELECT (SELECT fence FROM base), $1, (SELECT now FROM clock), array_agg(id), array_agg(turn)
    FROM chosen
    HAVING count(*) > 0
)
SELECT
    id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, lane, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, (SELECT fence FROM base) + row_number() OVER () AS fence, place
FROM chosen
