-- Records messages of a queue, all of them or none. $1 the queue, $2 how many may not have ended at most; of each message:
-- $3 id, $4 tenant, $5 version of the queue, $6 scheduled time, $7 when it is due, $8 lane, $9 parameters, $10 user, $11 workspace,
-- $12 urgency, $13 ordering key, $14 when it expires, $15 deduplication key. One with a key that belongs to another message
-- is left out.
WITH clock AS MATERIALIZED (SELECT clock() AS now),
sent AS MATERIALIZED (
    SELECT
        u.*, greatest(u.due_at, (SELECT now FROM clock) - cardinality($3) - 1 + u.place) AS order_at,
        row_number() OVER (PARTITION BY u.ordering_key ORDER BY u.place) AS nth
    FROM unnest(
        $3::uuid[], $4::uuid[], $5::integer[], $6::bigint[], $7::bigint[], $8::smallint[], $9::text[], $10::uuid[], $11::text[],
        $12::smallint[], $13::text[], $14::bigint[], $15::text[]
    ) WITH ORDINALITY AS u (
        id, tenant_id, job_version, scheduled_for, due_at, lane, parameters, requested_by, workspace,
        urgency, ordering_key, expires_at, deduplication_key, place
    )
    WHERE u.deduplication_key IS NULL OR EXISTS (
        SELECT 1 FROM message_keys k WHERE k.queue_id = $1 AND k.key = u.deduplication_key AND k.run_id = u.id
    )
),
queue AS MATERIALIZED (
    SELECT
        EXISTS (SELECT 1 FROM jobs WHERE id = $1 AND state || '' <> 'DELETED') AS is_there,
        $2::bigint IS NOT NULL AND (SELECT count(*) FROM sent) > 0 AND (
            SELECT count(*) FROM (SELECT 1 FROM runs WHERE job_id = $1 LIMIT $2::bigint) AS r
        ) + (SELECT count(*) FROM sent) > $2::bigint AS is_full
),
born AS (
    INSERT INTO runs (
        id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, lane, origin, coalesced,
        ignore_dependencies, parameters, attempts, lost, turn, wait, requested_by, created_at
    )
    SELECT
        s.id, $1, s.tenant_id, s.job_version, s.scheduled_for, '', s.due_at, s.order_at, s.lane, 7, 0, true, s.parameters,
        0, 0, 0, 5, s.requested_by, (SELECT now FROM clock)
    FROM sent s
    WHERE (SELECT is_there AND NOT is_full FROM queue)
    ORDER BY s.id
    RETURNING id, tenant_id, requested_by
),
message AS (
    INSERT INTO messages (run_id, queue_id, at, order_at, expires_at, urgency, state, workspace, ordering_key)
    SELECT
        s.id, $1, s.due_at, s.order_at, s.expires_at, s.urgency,
        CASE
            WHEN s.ordering_key IS NOT NULL AND (
                s.nth > 1 OR EXISTS (
                    SELECT 1 FROM messages m
                    WHERE m.queue_id = $1 AND m.ordering_key = s.ordering_key AND m.ordering_key IS NOT NULL
                )
            ) THEN 3
            WHEN s.due_at > (SELECT now FROM clock) THEN 1
            ELSE 0
        END,
        s.workspace, s.ordering_key
    FROM sent s
    WHERE (SELECT is_there AND NOT is_full FROM queue)
    ORDER BY s.id
),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
    SELECT
        a.tenant_id, (SELECT now FROM clock),
        coalesce((SELECT i.name FROM identities i WHERE i.id = a.requested_by), a.requested_by::text),
        'RUNS_REQUESTED', 'REQUESTED', '', a.runs
    FROM (
        SELECT
            tenant_id, requested_by,
            string_agg(uuid_send(id) || uuid_send($1) || int2send(7::smallint), ''::bytea) AS runs
        FROM born
        WHERE requested_by IS NOT NULL
        GROUP BY tenant_id, requested_by
    ) AS a
)
SELECT is_there, is_full FROM queue
