-- Messages end: they leave the live tables for the history. $1 the node that reports. Of each: $2 id, $3 the token of its
-- lease, none if it must not be leased, $4 whether it ends only if its cancellation was requested, $5 outcome, $6 and $7 reason,
-- $8 whether it is a dead letter, $9 how the attempt ended, if one was made, $10 its message, $11 its error, $12 its
-- result, $13 its queue, $14 whether it leaves no row in the history if it completes.
WITH clock AS MATERIALIZED (SELECT clock() AS now),
wanted AS MATERIALIZED (
    SELECT u.*
    FROM unnest(
        $2::uuid[], $3::bigint[], $4::boolean[], $5::smallint[], $6::text[], $7::text[], $8::boolean[], $9::smallint[],
        $10::text[], $11::text[], $12::text[], $13::uuid[], $14::boolean[]
    ) AS u (
        id, fence, if_cancelled, outcome, reason, reason_text, dead_letter, attempt_end, message, error, result, queue_id,
        is_forgotten
    )
    WHERE u.if_cancelled IS NOT TRUE OR EXISTS (
        SELECT 1 FROM runs r WHERE r.id BETWEEN u.id AND u.id AND r.cancel_code IS NOT NULL
    )
),
gone AS (
    DELETE FROM messages m USING wanted u
    WHERE m.run_id BETWEEN u.id AND u.id AND m.queue_id = u.queue_id
        AND CASE WHEN u.fence IS NULL THEN m.state <> 2 ELSE m.state + 0 = 2 AND m.fence = u.fence END
    RETURNING
        m.run_id, m.queue_id, m.ordering_key, m.state, m.leased_at, u.fence, u.outcome, u.reason, u.reason_text, u.dead_letter,
        u.attempt_end, u.message, u.error, u.result, u.is_forgotten
),
ended AS (
    DELETE FROM runs r USING gone g
    WHERE r.id BETWEEN g.run_id AND g.run_id
    RETURNING
        r.id, r.job_id, r.tenant_id, r.scheduled_for, r.due_at, r.job_version, r.coalesced, r.attempts, r.lost, r.origin,
        r.shard, r.parameters, r.requested_by, r.created_at, g.fence, g.attempt_end, g.message, g.error, g.result,
        g.is_forgotten IS TRUE AND g.outcome = 1 AND r.cancel_code IS NULL AS is_forgotten,
        CASE WHEN g.attempt_end IS NOT NULL THEN g.leased_at END AS started_at,
        CASE WHEN g.attempt_end IS NOT NULL THEN r.attempts + r.lost + 1 END AS number,
        -- A cancelled message never ends as completed.
        CASE WHEN r.cancel_code IS NULL THEN g.outcome ELSE 3::smallint END AS outcome,
        r.cancel_code IS NULL AND g.dead_letter IS TRUE AS dead_letter,
        coalesce(r.cancel_code, g.reason) AS reason,
        CASE WHEN r.cancel_code IS NULL THEN g.reason_text ELSE r.cancel_text END AS reason_text
),
-- The next message of an ordering key whose first one has ended.
unblocked AS (
    UPDATE messages m SET state = CASE WHEN m.at > (SELECT now FROM clock) THEN 1 ELSE 0 END
    FROM (SELECT DISTINCT queue_id, ordering_key FROM gone WHERE ordering_key IS NOT NULL AND state <> 3) AS k
    CROSS JOIN LATERAL (
        SELECT f.run_id FROM messages f
        WHERE f.queue_id = k.queue_id AND f.ordering_key = k.ordering_key AND f.ordering_key IS NOT NULL AND f.state = 3
            AND f.run_id NOT IN (SELECT run_id FROM gone)
        ORDER BY f.order_at, f.run_id LIMIT 1
    ) AS f
    WHERE m.run_id BETWEEN f.run_id AND f.run_id
),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, node_id, outcome, details, runs)
    SELECT
        tenant_id, (SELECT now FROM clock), '', 'RUNS_ENDED', $1, '', '',
        string_agg(
            uuid_send(id) || uuid_send(job_id) || int2send(outcome) || int4send(coalesce(number, 0))
                || int8send(coalesce(started_at, 0)) || int8send(-1),
            ''::bytea
        )
    FROM ended
    GROUP BY tenant_id
),
record AS (
    INSERT INTO history (
        id, job_id, tenant_id, node_id, scheduled_for, due_at, finished_at, started_at, fence, job_version, coalesced,
        attempts, lost, number, attempt_end, origin, outcome, dead_letter, shard, parameters, reason, reason_text, message,
        error, result, requested_by, created_at
    )
    SELECT
        id, job_id, tenant_id, CASE WHEN number IS NOT NULL THEN $1::uuid END, scheduled_for, due_at, (SELECT now FROM clock),
        started_at, fence, job_version, coalesced,
        attempts + CASE WHEN attempt_end <> 5 THEN 1 ELSE 0 END, lost + CASE WHEN attempt_end = 5 THEN 1 ELSE 0 END,
        number, attempt_end, origin, outcome, dead_letter, shard, parameters, reason, reason_text, message, error, result,
        requested_by, created_at
    FROM ended
    WHERE NOT is_forgotten
),
-- Attempts before the last one, and their outputs.
forgotten AS (
    DELETE FROM attempts a USING ended e WHERE a.run_id = e.id AND e.is_forgotten
),
forgotten_outputs AS (
    DELETE FROM outputs o USING ended e WHERE o.run_id = e.id AND e.is_forgotten
)
SELECT id, outcome FROM ended
