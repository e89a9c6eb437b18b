-- Moves next times forward from where the plans saw them, and records what those plans made.
-- $1 to $4 are jobs, $5 to $17 runs, $18 to $27 times without a run.
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
        id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, priority, origin, coalesced,
        ignore_dependencies, parameters, attempts, lost, turn, wait
    )
    SELECT
        id, job_id, tenant_id, job_version, scheduled_for, shard, due_at,
        greatest(due_at, (SELECT now FROM clock) - back), priority, origin, coalesced,
        ignore_dependencies, parameters, 0, 0, 0, 0
    FROM unnest(
        $5::uuid[], $6::uuid[], $7::uuid[], $8::integer[], $9::bigint[], $10::text[], $11::bigint[], $12::bigint[],
        $13::smallint[], $14::smallint[], $15::integer[], $16::boolean[], $17::text[]
    ) AS u (
        id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, back,
        priority, origin, coalesced, ignore_dependencies, parameters
    )
    WHERE (u.job_id IN (SELECT id FROM fired)) IS TRUE
    ON CONFLICT (id) DO NOTHING
),
ledger AS (
    INSERT INTO history (
        id, job_id, tenant_id, job_version, scheduled_for, scheduled_last, count, due_at, finished_at,
        outcome, reason, reason_text, origin, coalesced, attempts, lost, dead_letter, shard
    )
    SELECT
        id, job_id, tenant_id, job_version, first, last, count, first, (SELECT now FROM clock),
        outcome, reason, reason_text, 1, 0, 0, 0, false, ''
    FROM unnest(
        $18::uuid[], $19::uuid[], $20::uuid[], $21::integer[], $22::bigint[], $23::bigint[], $24::bigint[],
        $25::smallint[], $26::text[], $27::text[]
    ) AS u (id, job_id, tenant_id, job_version, first, last, count, outcome, reason, reason_text)
    WHERE (u.job_id IN (SELECT id FROM fired)) IS TRUE
        AND (SELECT r.turn FROM runs r WHERE r.id = u.id) IS NULL
    ON CONFLICT (id) DO NOTHING
)
SELECT id FROM fired
