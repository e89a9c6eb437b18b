-- Runs. A run that is due already is ordered by its arrival, not by a time in the past: it did not
-- precede a run that has begun meanwhile. Runs of one call keep their order. A column with a single
-- value has it for all rows; unnest fills up the rest.
WITH clock AS MATERIALIZED (SELECT clock() AS now)
INSERT INTO runs (
    id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, lane, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, wait, requested_by, created_at
)
SELECT
    id, coalesce(job_id, ($2)[1]), coalesce(tenant_id, ($3)[1]), coalesce(job_version, ($4)[1]),
    scheduled_for, coalesce(shard, ($6)[1]), due_at,
    greatest(due_at, (SELECT now FROM clock) - cardinality($1) - 1 + place),
    coalesce(lane, ($8)[1]), coalesce(origin, ($9)[1]), coalesce(coalesced, ($10)[1]),
    coalesce(ignore_dependencies, ($11)[1]), parameters, 0, 0, 0, 0,
    -- Zeros stand for a run that no user requested, beside others that users did.
    nullif(coalesce(requested_by, ($13)[1]), '00000000-0000-0000-0000-000000000000'),
    (SELECT now FROM clock)
FROM unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::integer[], $5::bigint[], $6::text[], $7::bigint[],
    $8::smallint[], $9::smallint[], $10::integer[], $11::boolean[], $12::text[], $13::uuid[]
) WITH ORDINALITY AS u (
    id, job_id, tenant_id, job_version, scheduled_for, shard, due_at,
    lane, origin, coalesced, ignore_dependencies, parameters, requested_by, place
)
