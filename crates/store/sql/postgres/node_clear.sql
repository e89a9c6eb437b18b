-- Dead nodes whose last run was settled. Under the lock of the list of nodes; claims are locked by
-- id.
WITH spent AS MATERIALIZED (
    SELECT c.id FROM claims c
    WHERE c.node_id = ANY (ARRAY(SELECT id FROM nodes WHERE dead AND NOT cleared)) AND NOT EXISTS (
        SELECT 1 FROM unnest(c.run_ids, c.turns) AS h (id, turn)
        JOIN runs r ON r.id BETWEEN h.id AND h.id AND r.turn = h.turn
    )
    ORDER BY c.id
    FOR UPDATE
),
claim AS (
    DELETE FROM claims c USING spent s WHERE c.id BETWEEN s.id AND s.id RETURNING c.id
)
UPDATE nodes n SET cleared = true
WHERE n.dead AND NOT n.cleared AND NOT EXISTS (
    SELECT 1 FROM claims c WHERE c.node_id = n.id AND (c.id IN (SELECT id FROM claim)) IS NOT TRUE
)
