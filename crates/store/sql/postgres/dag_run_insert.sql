-- Runs of steps, of those DAG runs ($13) that this transaction has written. A column with a single
-- value has it for all rows; unnest fills up the rest.
WITH clock AS MATERIALIZED (SELECT clock() AS now)
INSERT INTO runs (
    id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, lane, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, wait, created_at
)
SELECT
    u.id, coalesce(u.job_id, ($2)[1]), coalesce(u.tenant_id, ($3)[1]), coalesce(u.job_version, ($4)[1]),
    u.scheduled_for, coalesce(u.shard, ($6)[1]), u.due_at,
    greatest(u.due_at, (SELECT now FROM clock) - cardinality($1) - 1 + u.place),
    coalesce(u.lane, ($8)[1]), coalesce(u.origin, ($9)[1]), coalesce(u.coalesced, ($10)[1]),
    coalesce(u.ignore_dependencies, ($11)[1]), u.parameters, 0, 0, 0, 0, (SELECT now FROM clock)
FROM unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::integer[], $5::bigint[], $6::text[], $7::bigint[],
    $8::smallint[], $9::smallint[], $10::integer[], $11::boolean[], $12::text[], $13::uuid[]
) WITH ORDINALITY AS u (
    id, job_id, tenant_id, job_version, scheduled_for, shard, due_at,
    lane, origin, coalesced, ignore_dependencies, parameters, dag_run_id, place
)
JOIN dag_runs d ON d.run_id = u.dag_run_id AND d.xmin = pg_current_xact_id()::xid
ORDER BY u.id
