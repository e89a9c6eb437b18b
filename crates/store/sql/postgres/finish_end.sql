-- Ends runs: they move from the live table to the history, if their claims are still valid. $1 is
-- the holder; without one, the claims are those of dead nodes. $19 are the rows of claims that all
-- of them are from, if known: as long as these exist and are whole, they need not be read. $21 are
-- the fencing tokens of attempts: history shows them, and a finish that is sent again is recognized
-- by them. A column that has no value at all may be left empty: unnest fills it up. One with a
-- single value has it for all rows.
WITH known AS MATERIALIZED (
    SELECT count(*) = cardinality($19::bigint[]) AS yes
    FROM nodes n
    JOIN claims c ON c.node_id = n.id
    WHERE n.id = $1 AND NOT n.dead AND c.id = ANY ($19) AND c.whole
),
held AS (
    SELECT h.run_id, c.id + h.k AS fence
    FROM nodes n
    JOIN claims c ON c.node_id = n.id
    CROSS JOIN LATERAL unnest(c.run_ids) WITH ORDINALITY AS h (run_id, k)
    WHERE CASE WHEN $1::uuid IS NULL THEN n.dead ELSE n.id = $1 AND NOT n.dead END
        AND ($19::bigint[] IS NULL OR c.id = ANY ($19))
),
ended AS (
    DELETE FROM runs r
    USING unnest(
        $2::uuid[], $3::bigint[], $4::integer[], $5::boolean[], $6::smallint[], $7::text[], $8::text[], $9::boolean[],
        $10::integer[], $11::smallint[], $12::uuid[], $13::bigint[], $14::bigint[], $15::text[], $16::text[],
        $17::text[], $18::bigint[], $20::text[], $21::bigint[], $22::integer[]
    ) AS u (
        run_id, fence, turn, if_cancelled, outcome, reason, reason_text, dead_letter,
        number, attempt_end, node_id, started_at, finished_at, message, error, result, rows_affected, details,
        mark, version
    )
    WHERE r.id BETWEEN u.run_id AND u.run_id
        AND r.turn = CASE WHEN cardinality($4) = 1 THEN ($4)[1] ELSE u.turn END
        AND ((SELECT yes FROM known) OR (u.run_id, u.fence) IN (SELECT run_id, fence FROM held)) IS TRUE
        -- A retry ends only if the cancellation of the run was requested.
        AND (u.if_cancelled IS NOT TRUE OR r.cancel_code IS NOT NULL)
    RETURNING
        r.id, r.job_id, r.tenant_id, u.node_id, r.scheduled_for, r.due_at, u.finished_at, u.started_at, u.fence,
        u.rows_affected, coalesce(u.version, r.job_version) AS job_version, coalesce(u.mark, -u.fence) AS mark, r.coalesced, r.attempts, r.lost,
        CASE WHEN cardinality($10) = 1 THEN ($10)[1] ELSE u.number END AS number,
        CASE WHEN cardinality($11) = 1 THEN ($11)[1] ELSE u.attempt_end END AS attempt_end, r.origin,
        -- A cancelled run never ends as completed.
        CASE
            WHEN r.cancel_code IS NOT NULL THEN 3
            WHEN cardinality($6) = 1 THEN ($6)[1]
            ELSE u.outcome
        END AS outcome,
        r.cancel_code IS NULL AND u.dead_letter IS TRUE AS dead_letter, r.shard, r.parameters,
        coalesce(r.cancel_code, u.reason) AS reason,
        CASE WHEN r.cancel_code IS NULL THEN u.reason_text ELSE r.cancel_text END AS reason_text,
        u.message, u.error, u.result, u.details, r.requested_by, r.created_at
),
-- One row of the audit for all that ended together; domain::audit reads the list.
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, node_id, outcome, details, runs)
    SELECT
        tenant_id, clock(), '', 'RUNS_ENDED', coalesce(node_id, $1), '', '',
        string_agg(
            uuid_send(id) || uuid_send(job_id) || int2send(outcome::smallint) || int4send(coalesce(number, 0))
                || int8send(coalesce(started_at, 0)) || int8send(coalesce(rows_affected, -1)),
            ''::bytea
        )
    FROM ended
    GROUP BY tenant_id, coalesce(node_id, $1)
),
record AS (
    INSERT INTO history (
        id, job_id, tenant_id, node_id, scheduled_for, due_at, finished_at, started_at, fence,
        rows_affected, job_version, coalesced, attempts, lost, number, attempt_end, origin,
        outcome, dead_letter, shard, parameters, reason, reason_text, message, error, result, details,
        requested_by, created_at
    )
    SELECT
        id, job_id, tenant_id, CASE WHEN number IS NOT NULL THEN coalesce(node_id, $1) END,
        scheduled_for, due_at, coalesce(finished_at, clock()), started_at, mark, rows_affected, job_version, coalesced,
        attempts + CASE WHEN attempt_end <> 5 THEN 1 ELSE 0 END,
        lost + CASE WHEN attempt_end = 5 THEN 1 ELSE 0 END, number, attempt_end, origin,
        outcome, dead_letter, shard, parameters, reason, reason_text, message, error, result, details,
        requested_by, created_at
    FROM ended
)
SELECT array_agg(fence), array_agg(outcome::smallint) FROM ended
