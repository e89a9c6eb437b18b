-- Ends a run that no node holds, or requests its holder to end it. Runs under the gate. $4 whether
-- the run waits: if it does, the transaction has the exclusive lock of waits, otherwise it has
-- locked the run before the gate. A run that began or ceased to wait in between is left alone,
-- which the last column but one reports. So is a DAG run that has begun, which the last column
-- reports.
WITH target AS MATERIALIZED (
    SELECT id, turn FROM runs WHERE id = $1 AND (wait <> 0) = $4::boolean
        AND NOT EXISTS (SELECT 1 FROM dag_runs AS d WHERE d.run_id = $1)
    FOR UPDATE NOWAIT
),
holder AS MATERIALIZED (
    SELECT c.node_id
    FROM target r
    CROSS JOIN claims c
    CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
    WHERE h.id = r.id AND h.turn = r.turn
    LIMIT 1
),
asked AS (
    UPDATE runs SET cancel_code = $2, cancel_text = $3
    WHERE id = (SELECT id FROM target) AND EXISTS (SELECT 1 FROM holder)
),
ended AS (
    DELETE FROM runs WHERE id = (SELECT id FROM target) AND NOT EXISTS (SELECT 1 FROM holder)
    RETURNING
        id, job_id, tenant_id, job_version, scheduled_for, due_at, origin, coalesced, attempts, lost, shard, parameters,
        requested_by, created_at
),
record AS (
    INSERT INTO history (
        id, job_id, tenant_id, job_version, scheduled_for, due_at, origin, coalesced, attempts, lost, shard, parameters,
        requested_by, created_at, finished_at, outcome, reason, reason_text, dead_letter
    )
    SELECT
        id, job_id, tenant_id, job_version, scheduled_for, due_at, origin, coalesced, attempts, lost, shard, parameters,
        requested_by, created_at, clock(), 3, $2, $3, false
    FROM ended
    RETURNING id
)
SELECT
    (SELECT node_id FROM holder) AS holder,
    EXISTS (SELECT 1 FROM record) AS ended,
    (SELECT outcome FROM history WHERE id = $1) AS outcome,
    EXISTS (SELECT 1 FROM runs WHERE id = $1 AND (wait <> 0) <> $4::boolean) AS has_moved,
    EXISTS (SELECT 1 FROM dag_runs WHERE run_id = $1) AS has_steps
