-- Ends the registration of a node, under the gate and the node's lock, after its runs that had not
-- begun were released: without begun runs its claims are deleted with it.
WITH left_over AS (
    SELECT EXISTS (
        SELECT 1 FROM claims c
        CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
        JOIN runs r ON r.id BETWEEN h.id AND h.id AND r.turn = h.turn
        WHERE c.node_id = $1
    ) AS any_run
),
gone AS (
    UPDATE nodes SET dead = true, cleared = NOT l.any_run, gone_at = clock(), renewed_at = clock()
    FROM left_over l
    WHERE id = $1 AND NOT dead
    RETURNING id, cleared
)
DELETE FROM claims WHERE node_id IN (SELECT id FROM gone WHERE cleared)
