-- Continues run_insert: the runs that were recorded, without those that had ended before. $14 and
-- $15 are the first and the last of the runs.
RETURNING id, job_id, tenant_id, due_at, order_at, lane, origin, requested_by
),
-- Those that had ended before.
known AS MATERIALIZED (SELECT coalesce(forget_ended(array_agg(id), $14, $15), '{}') AS ids FROM born),
clock AS MATERIALIZED (SELECT clock() AS now),
