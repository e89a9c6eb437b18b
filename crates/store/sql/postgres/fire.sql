-- Moves next times forward from where the plans saw them, and records what those plans made.
-- $1 to $4 are jobs, $5 to $16 runs, $17 to $26 times without a run. A column of runs with a single
-- value has it for all of them.
WITH clock AS MATERIALIZED (SELECT clock() AS now),
fired AS (
    UPDATE jobs j SET next_run = u.new_next
    FROM unnest($1::uuid[], $2::integer[], $3::bigint[], $4::bigint[]) AS u (job_id, version, expected_next, new_next)
    WHERE j.id BETWEEN u.job_id AND u.job_id AND j.version = u.version AND j.next_run = u.expected_next
        AND j.state || '' = 'ENABLED'
    RETURNING j.id
),
run AS (
    INSERT INTO runs (
        id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, lane, origin, coalesced,
        ignore_dependencies, parameters, attempts, lost, turn, wait, created_at
    )
    SELECT
        id, coalesce(job_id, ($6)[1]), coalesce(tenant_id, ($7)[1]), coalesce(job_version, ($8)[1]),
        scheduled_for, coalesce(shard, ($10)[1]), due_at,
        greatest(due_at, (SELECT now FROM clock) - cardinality($5) - 1 + place),
        coalesce(lane, ($12)[1]), coalesce(origin, ($13)[1]), coalesce(coalesced, ($14)[1]),
        coalesce(ignore_dependencies, ($15)[1]), parameters, 0, 0, 0, 0, (SELECT now FROM clock)
    FROM unnest(
        $5::uuid[], $6::uuid[], $7::uuid[], $8::integer[], $9::bigint[], $10::text[], $11::bigint[],
        $12::smallint[], $13::smallint[], $14::integer[], $15::boolean[], $16::text[]
    ) WITH ORDINALITY AS u (
        id, job_id, tenant_id, job_version, scheduled_for, shard, due_at,
        lane, origin, coalesced, ignore_dependencies, parameters, place
    )
    WHERE (coalesce(u.job_id, ($6)[1]) IN (SELECT id FROM fired)) IS TRUE
    ON CONFLICT (id) DO NOTHING
),
ledger AS (
    INSERT INTO history (
        id, job_id, tenant_id, job_version, scheduled_for, scheduled_last, count, due_at, finished_at,
        outcome, reason, reason_text, origin, coalesced, attempts, lost, dead_letter, shard, created_at
    )
    SELECT
        id, job_id, tenant_id, job_version, first, last, count, first, (SELECT now FROM clock),
        outcome, reason, reason_text, 1, 0, 0, 0, false, '', (SELECT now FROM clock)
    FROM unnest(
        $17::uuid[], $18::uuid[], $19::uuid[], $20::integer[], $21::bigint[], $22::bigint[], $23::bigint[],
        $24::smallint[], $25::text[], $26::text[]
    ) AS u (id, job_id, tenant_id, job_version, first, last, count, outcome, reason, reason_text)
    WHERE (u.job_id IN (SELECT id FROM fired)) IS TRUE
        AND (SELECT r.turn FROM runs r WHERE r.id = u.id) IS NULL
    ON CONFLICT (id) DO NOTHING
)
SELECT id FROM fired
