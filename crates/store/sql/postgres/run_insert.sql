-- Runs. What is due already takes its turn by when it came, not by a time in the past: a run that
-- has begun meanwhile was not preceded by it.
WITH clock AS MATERIALIZED (SELECT clock() AS now)
INSERT INTO runs (
    id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, wait
)
SELECT
    id, job_id, tenant_id, job_version, scheduled_for, shard, due_at,
    greatest(due_at, (SELECT now FROM clock) - back), priority, origin, coalesced,
    ignore_dependencies, parameters, 0, 0, 0, 0
FROM unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::integer[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[],
    $9::smallint[], $10::smallint[], $11::integer[], $12::boolean[], $13::text[]
) AS u (
    id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, back,
    priority, origin, coalesced, ignore_dependencies, parameters
)
