-- Steps of those DAG runs ($1) that this transaction has written; earlier records of them are
-- replaced.
INSERT INTO dag_steps AS s (
    dag_run_id, step, item, outcome, reason, reason_text, run_id, items, by_step, by_item, decided_at, ended_at, adopted, called
)
SELECT
    u.dag_run_id, u.step, u.item, u.outcome, u.reason, u.reason_text, u.run_id, u.items, u.by_step, u.by_item, u.decided_at,
    u.ended_at, u.adopted, u.called
FROM unnest(
    $1::uuid[], $2::integer[], $3::integer[], $4::smallint[], $5::text[], $6::text[], $7::uuid[], $8::integer[],
    $9::integer[], $10::integer[], $11::bigint[], $12::bigint[], $13::boolean[], $14::boolean[]
) AS u (
    dag_run_id, step, item, outcome, reason, reason_text, run_id, items, by_step, by_item, decided_at, ended_at, adopted, called
)
JOIN dag_runs d ON d.run_id = u.dag_run_id AND d.xmin = pg_current_xact_id()::xid
ON CONFLICT (dag_run_id, item, step) DO UPDATE SET
    outcome = excluded.outcome, reason = excluded.reason, reason_text = excluded.reason_text, run_id = excluded.run_id,
    items = excluded.items, by_step = excluded.by_step, by_item = excluded.by_item, decided_at = excluded.decided_at,
    ended_at = excluded.ended_at
