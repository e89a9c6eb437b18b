-- A DAG run ($1) begins, unless it has begun, or its end was requested. Under the gate. $11 is the node that holds it with the
-- fence $12.
INSERT INTO dag_runs (
    run_id, job_id, tenant_id, version, revision, control, is_over, rerun_of, forced, scheduled_for, parameters
)
SELECT $1, $2, $3, $4, $5, $6, false, $7, $8, $9, $10
FROM runs r
WHERE r.id = $1 AND r.cancel_code IS NULL
    AND EXISTS (
        SELECT 1 FROM nodes n
        JOIN claims c ON c.node_id = n.id
        CROSS JOIN LATERAL unnest(c.run_ids, c.turns) WITH ORDINALITY AS h (id, turn, k)
        WHERE n.id = $11 AND NOT n.dead AND h.id = r.id AND h.turn = r.turn AND c.id + h.k = $12::bigint
    )
ON CONFLICT (run_id) DO NOTHING
RETURNING run_id
