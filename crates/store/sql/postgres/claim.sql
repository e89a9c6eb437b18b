-- Hands runs to a node, under the gate: fair between tenants, then by priority with ageing, then by time.
-- $1 node, $2 how many due runs, $3 how many that are due soon, $4 how soon, $5 the most a tenant may hold,
-- $6 how deep to look: where there are many tenants, only so much of each one's work is looked at. $7 so much is a large
-- claim: to step over what is held already would cost most of it. $8 so many large claims in a row begin where the one
-- before ended, whoever made it; the next one looks at what has come back since.
-- Goes on behind lanes.
, clock AS MATERIALIZED (SELECT clock() AS now),
-- A time in a lane before which everything was held a moment ago.
front AS MATERIALIZED (
    SELECT front_tenant AS tenant_id, front_priority AS priority, front_due_at AS due_at, front_looks AS looks
    FROM gate
    WHERE $2::bigint >= $7::bigint AND front_looks < $8::integer
),
busy AS MATERIALIZED (
    SELECT l.tenant_id, l.priority, greatest(l.first, f.due_at) AS first
    FROM lanes l
    LEFT JOIN front f ON f.tenant_id = l.tenant_id AND f.priority = l.priority
    WHERE l.first <= (SELECT now FROM clock)
),
-- The tenants that may have only so many runs at work, and whether anybody is counted.
limits AS MATERIALIZED (SELECT tenant_id, max_concurrent AS n FROM quotas WHERE max_concurrent IS NOT NULL),
counted AS MATERIALIZED (
    SELECT $5::integer IS NOT NULL OR EXISTS (SELECT 1 FROM limits JOIN busy USING (tenant_id)) AS yes
),
-- How many runs of one tenant may be chosen.
quota AS MATERIALIZED (
    SELECT least($2::bigint, greatest(1024, 2 * $2::bigint * $6::bigint) / greatest(count(DISTINCT tenant_id), 1) + 1) AS n
    FROM busy
),
-- The front of each lane. It begins at the first time, so that what has ended since the last vacuum
-- is stepped over only once.
due AS NOT MATERIALIZED (
    SELECT r.*
    FROM busy b
    CROSS JOIN LATERAL (
        SELECT
            r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.shard, r.due_at, r.priority, r.origin,
            r.coalesced, r.ignore_dependencies, r.parameters, r.attempts, r.lost, r.turn
        FROM runs r
        WHERE r.wait = 0 AND r.place IS NULL AND r.tenant_id = b.tenant_id AND r.priority = b.priority
            AND r.due_at >= b.first AND r.due_at <= (SELECT now FROM clock)
            AND (r.id, r.turn) NOT IN (
                SELECT unnest(c.run_ids), unnest(c.turns) FROM claims c WHERE c.due_until >= (SELECT min(first) FROM busy)
            )
        ORDER BY r.due_at
        LIMIT (SELECT n FROM quota)
    ) AS r
),
-- What each tenant holds already, where that matters.
held AS (
    SELECT r.tenant_id, count(*)::integer AS n
    FROM claims c
    CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
    JOIN runs r ON r.id BETWEEN h.id AND h.id AND r.turn = h.turn
    WHERE (SELECT yes FROM counted) OR (SELECT count(DISTINCT tenant_id) > 1 FROM busy)
    GROUP BY r.tenant_id
),
-- Each tenant's n-th run goes before any tenant's (n + 1)-th, what it holds included. A point of
-- priority is worth a minute of waiting, so the order of two runs never changes while they wait.
placed AS (
    SELECT p.*, sum(p.n) OVER line AS place, count(p.id) OVER line AS nth
    FROM (
        SELECT 1 AS n, d.due_at - d.priority * 60000000::bigint AS rank, d.* FROM due d
        WHERE (SELECT count(*) > 1 FROM busy) OR (SELECT yes FROM counted)
        UNION ALL
        SELECT
            h.n, -9223372036854775808, NULL, NULL, h.tenant_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL
        FROM held h
    ) AS p
    WINDOW line AS (PARTITION BY p.tenant_id ORDER BY p.rank, p.due_at, p.id)
),
-- What is prepared starts by itself, so a tenant that is counted gets its runs when they are due.
soon AS (
    SELECT r.*
    FROM lanes l
    CROSS JOIN LATERAL (
        SELECT
            r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.shard, r.due_at, r.priority, r.origin,
            r.coalesced, r.ignore_dependencies, r.parameters, r.attempts, r.lost, r.turn
        FROM runs r
        WHERE r.wait = 0 AND r.place IS NULL AND r.tenant_id = l.tenant_id AND r.priority = l.priority
            AND r.due_at > (SELECT now FROM clock) AND r.due_at <= (SELECT now FROM clock) + $4::bigint
            AND (r.id, r.turn) NOT IN (
                SELECT unnest(c.run_ids), unnest(c.turns) FROM claims c WHERE c.due_until > (SELECT now FROM clock)
            )
        ORDER BY r.due_at
        LIMIT $3::bigint
    ) AS r
    WHERE l.tenant_id NOT IN (SELECT tenant_id FROM limits)
),
-- Grants are numbered in this order. With one lane there is nothing to be fair about.
chosen AS MATERIALIZED (
    (
        SELECT * FROM due
        WHERE (SELECT count(*) = 1 FROM busy) AND NOT (SELECT yes FROM counted)
        LIMIT $2::bigint
    )
    UNION ALL
    (
        SELECT
            id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, priority, origin, coalesced,
            ignore_dependencies, parameters, attempts, lost, turn
        FROM placed
        WHERE id IS NOT NULL AND nth <= (SELECT n FROM quota) AND ($5::integer IS NULL OR place <= $5)
            AND NOT EXISTS (SELECT 1 FROM limits l WHERE l.tenant_id = placed.tenant_id AND placed.place > l.n)
        ORDER BY place, rank, due_at, id
        LIMIT $2::bigint
    )
    UNION ALL
    (SELECT * FROM soon ORDER BY due_at, id LIMIT $3::bigint)
),
base AS MATERIALIZED (SELECT fence - $2::bigint - $3::bigint AS fence FROM gate),
claim AS (
    INSERT INTO claims (id, node_id, claimed_at, run_ids, turns, due_until)
    SELECT (SELECT fence FROM base), $1, (SELECT now FROM clock), array_agg(id), array_agg(turn), max(due_at)
    FROM chosen
    HAVING count(*) > 0
),
-- A large claim that got all it wanted from one lane has left nothing before its end.
moved AS (
    UPDATE gate
    SET
        (front_tenant, front_priority, front_due_at) = (
            SELECT tenant_id, priority, max(due_at) FROM chosen
            WHERE due_at <= (SELECT now FROM clock)
            GROUP BY tenant_id, priority
            HAVING count(*) = $2::bigint
        ),
        front_looks = coalesce((SELECT looks FROM front) + 1, 0)
    WHERE $2::bigint >= $7::bigint
)
SELECT
    id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, (SELECT fence FROM base) + row_number() OVER () AS fence,
    -- A due run that guards nothing is decided with its claim.
    CASE WHEN due_at <= (SELECT now FROM clock) THEN nextval('start_tokens') END AS token
FROM chosen
