-- Claims runs for a node, under the gate: fair between tenants by their weights, then by priority
-- with ageing, then by time, for each kind of slot. A lane is ten times its kind of slot, plus a
-- priority. $1 node, $2 how many due runs of each kind of slot, $3 how many that are due soon, $4
-- how soon, $5 the limit of a tenant, $6 the depth for each kind: where there are many tenants,
-- only that many runs of each are read. $7 the size of a large claim: stepping over runs that are
-- held already would cost most of it. $8 how many large claims in a row begin where the one before
-- ended, of any node; the next one also reads runs that were released since. $9 the waiting time
-- that a point of priority is worth, $10 the weight of a tenant without one, $11 a round: every
-- weight divides it. Continues lanes.
, clock AS MATERIALIZED (SELECT clock() AS now),
want AS MATERIALIZED (
    SELECT slot - 1 AS slot, n, depth FROM unnest($2::bigint[], $6::bigint[]) WITH ORDINALITY AS u (n, depth, slot)
),
-- A time in a lane before which everything was held a moment ago.
front AS MATERIALIZED (
    SELECT front_tenant AS tenant_id, front_lane AS lane, front_due_at AS due_at, front_looks AS looks
    FROM gate
    WHERE front_looks < $8::integer
),
busy AS MATERIALIZED (
    SELECT
        l.tenant_id, l.lane, w.slot, w.n >= $7::bigint AS is_large,
        greatest(l.first, CASE WHEN w.n >= $7::bigint THEN f.due_at END) AS first
    FROM lanes l
    JOIN want w ON w.slot = l.lane / 10 AND w.n > 0
    LEFT JOIN front f ON f.tenant_id = l.tenant_id AND f.lane = l.lane
    WHERE l.first <= (SELECT now FROM clock)
),
-- The limits and weights of tenants with work, and whether any tenant is counted.
shares AS MATERIALIZED (
    SELECT l.tenant_id, q.max_concurrent AS n, coalesce(q.weight, $10::integer) AS weight
    FROM (SELECT DISTINCT tenant_id FROM lanes) AS l
    LEFT JOIN quotas q ON q.tenant_id = l.tenant_id
),
counted AS MATERIALIZED (
    SELECT
        $5::integer IS NOT NULL OR EXISTS (SELECT 1 FROM shares JOIN busy USING (tenant_id) WHERE n IS NOT NULL) AS yes
),
-- With one lane for each kind of slot, there is nothing to be fair about.
plain AS MATERIALIZED (
    SELECT count(*) = count(DISTINCT slot) AND NOT (SELECT yes FROM counted) AS yes, count(DISTINCT tenant_id) AS tenants
    FROM busy
),
-- How many runs of one tenant may be chosen for one kind of slot.
quota AS MATERIALIZED (
    SELECT w.slot, least(w.n, greatest(1024, 2 * w.n * w.depth) / count(DISTINCT b.tenant_id) + 1) AS n
    FROM want w
    JOIN busy b ON b.slot = w.slot
    GROUP BY w.slot, w.n, w.depth
),
-- The front of each lane. It begins at the first time, so that index entries of runs that ended
-- since the last vacuum are stepped over only once.
due AS NOT MATERIALIZED (
    SELECT r.*, b.slot
    FROM busy b
    JOIN quota q ON q.slot = b.slot
    CROSS JOIN LATERAL (
        SELECT
            r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.shard, r.due_at, r.lane, r.origin,
            r.coalesced, r.ignore_dependencies, r.parameters, r.attempts, r.lost, r.turn
        FROM runs r
        WHERE r.wait = 0 AND r.place IS NULL AND r.tenant_id = b.tenant_id AND r.lane = b.lane
            AND r.due_at >= b.first AND r.due_at <= (SELECT now FROM clock)
            AND (r.id, r.turn) NOT IN (
                SELECT unnest(c.run_ids), unnest(c.turns) FROM claims c WHERE c.due_until >= (SELECT min(first) FROM busy)
            )
        ORDER BY r.due_at
        LIMIT q.n
    ) AS r
),
-- Runs that each tenant holds by kind of slot, for tenants with a limit.
held AS MATERIALIZED (
    SELECT r.tenant_id, r.lane / 10 AS slot, count(*) AS n
    FROM claims c
    CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
    JOIN runs r ON r.id BETWEEN h.id AND h.id AND r.turn = h.turn
    WHERE (SELECT yes FROM counted) OR (SELECT tenants > 1 FROM plain)
    GROUP BY r.tenant_id, r.lane / 10
),
-- Tenants take turns by their weights, counting runs that they hold. A point of priority is worth
-- some waiting, so the order of two runs never changes while they wait.
ranked AS NOT MATERIALIZED (
    SELECT d.*, d.due_at - d.lane % 10 * $9::bigint AS rank FROM due d WHERE NOT (SELECT yes FROM plain)
),
placed AS MATERIALIZED (
    SELECT
        r.*,
        row_number() OVER line AS nth,
        (coalesce(h.n, 0) + row_number() OVER line) * $11::bigint / s.weight AS place
    FROM ranked r
    JOIN shares s ON s.tenant_id = r.tenant_id
    LEFT JOIN held h ON h.tenant_id = r.tenant_id AND h.slot = r.slot
    WINDOW line AS (PARTITION BY r.tenant_id, r.slot ORDER BY r.rank, r.due_at, r.id)
),
-- Runs beyond the limit of their tenant, over all kinds of slots.
surplus AS MATERIALIZED (
    SELECT p.id
    FROM (
        SELECT p.id, p.tenant_id, row_number() OVER (PARTITION BY p.tenant_id ORDER BY p.rank, p.due_at, p.id) AS nth
        FROM placed p
        WHERE (SELECT yes FROM counted)
    ) AS p
    JOIN shares s ON s.tenant_id = p.tenant_id
    WHERE p.nth + coalesce((SELECT sum(h.n) FROM held h WHERE h.tenant_id = p.tenant_id), 0) > least(s.n, $5::integer)
),
-- A prepared run starts without another claim, so a tenant with a limit gets runs only when due.
soon AS (
    SELECT r.*
    FROM lanes l
    CROSS JOIN LATERAL (
        SELECT
            r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.shard, r.due_at, r.lane, r.origin,
            r.coalesced, r.ignore_dependencies, r.parameters, r.attempts, r.lost, r.turn
        FROM runs r
        WHERE r.wait = 0 AND r.place IS NULL AND r.tenant_id = l.tenant_id AND r.lane = l.lane
            AND r.due_at > (SELECT now FROM clock) AND r.due_at <= (SELECT now FROM clock) + $4::bigint
            AND (r.id, r.turn) NOT IN (
                SELECT unnest(c.run_ids), unnest(c.turns) FROM claims c WHERE c.due_until > (SELECT now FROM clock)
            )
        ORDER BY r.due_at
        LIMIT $3::bigint
    ) AS r
    WHERE $5::integer IS NULL AND l.tenant_id NOT IN (SELECT tenant_id FROM shares WHERE n IS NOT NULL)
),
-- Fences are numbered in this order.
chosen AS MATERIALIZED (
    (
        SELECT
            id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, lane, origin, coalesced,
            ignore_dependencies, parameters, attempts, lost, turn
        FROM due
        WHERE (SELECT yes FROM plain)
    )
    UNION ALL
    (
        SELECT
            p.id, p.job_id, p.tenant_id, p.job_version, p.scheduled_for, p.shard, p.due_at, p.lane, p.origin, p.coalesced,
            p.ignore_dependencies, p.parameters, p.attempts, p.lost, p.turn
        FROM want w
        CROSS JOIN LATERAL (
            SELECT p.* FROM placed p
            WHERE p.slot = w.slot AND p.nth <= (SELECT q.n FROM quota q WHERE q.slot = w.slot)
                AND p.id NOT IN (SELECT id FROM surplus)
            ORDER BY p.place, p.rank, p.due_at, p.id
            LIMIT w.n
        ) AS p
    )
    UNION ALL
    (SELECT * FROM soon ORDER BY due_at, id LIMIT $3::bigint)
),
base AS MATERIALIZED (SELECT fence - (SELECT sum(n) FROM want)::bigint - $3::bigint AS fence FROM gate),
claim AS (
    INSERT INTO claims (id, node_id, claimed_at, run_ids, turns, due_until)
    SELECT (SELECT fence FROM base), $1, (SELECT now FROM clock), array_agg(id), array_agg(turn), max(due_at)
    FROM chosen
    HAVING count(*) > 0
),
-- A large claim that got all it wanted from one lane has left nothing before its end.
emptied AS MATERIALIZED (
    SELECT c.tenant_id, c.lane, max(c.due_at) AS due_at
    FROM chosen c
    JOIN want w ON w.slot = c.lane / 10
    WHERE c.due_at <= (SELECT now FROM clock) AND w.n >= $7::bigint
    GROUP BY c.tenant_id, c.lane, w.n
    HAVING count(*) = w.n
    ORDER BY count(*) DESC
    LIMIT 1
),
moved AS (
    UPDATE gate
    SET
        (front_tenant, front_lane, front_due_at) = (SELECT tenant_id, lane, due_at FROM emptied),
        front_looks = coalesce((SELECT looks FROM front) + 1, 0)
    WHERE EXISTS (SELECT 1 FROM busy WHERE is_large)
        AND (front_due_at IS NOT NULL OR EXISTS (SELECT 1 FROM emptied))
)
SELECT
    id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, lane, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, (SELECT fence FROM base) + row_number() OVER () AS fence,
    -- A due run that guards nothing is decided with its claim.
    CASE WHEN due_at <= (SELECT now FROM clock) THEN nextval('start_tokens') END AS token
FROM chosen
