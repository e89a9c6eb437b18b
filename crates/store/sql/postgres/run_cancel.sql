-- Ends a run that nobody holds, or asks its holder to. Under the gate.
WITH holder AS MATERIALIZED (
    SELECT c.node_id
    FROM runs r
    CROSS JOIN claims c
    CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
    WHERE r.id = $1 AND h.id = r.id AND h.turn = r.turn
    LIMIT 1
),
asked AS (
    UPDATE runs SET cancel_code = $2, cancel_text = $3
    WHERE id = $1 AND EXISTS (SELECT 1 FROM holder)
),
ended AS (
    DELETE FROM runs WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM holder)
    RETURNING
        id, job_id, tenant_id, job_version, scheduled_for, due_at, origin, coalesced, attempts, lost, shard, parameters
),
record AS (
    INSERT INTO history (
        id, job_id, tenant_id, job_version, scheduled_for, due_at, origin, coalesced, attempts, lost, shard, parameters,
        finished_at, outcome, reason, reason_text, dead_letter
    )
    SELECT
        id, job_id, tenant_id, job_version, scheduled_for, due_at, origin, coalesced, attempts, lost, shard, parameters,
        clock(), 3, $2, $3, false
    FROM ended
    RETURNING id
)
SELECT
    (SELECT node_id FROM holder) AS holder,
    EXISTS (SELECT 1 FROM record) AS ended,
    (SELECT outcome FROM history WHERE id = $1) AS outcome
