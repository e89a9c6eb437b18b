-- The leader of an epoch gives it up, unless it holds what only the leader may. Under the gate.
UPDATE roles SET node_id = NULL
WHERE name = 'LEADER' AND node_id = $1 AND epoch = $2 AND NOT EXISTS (
    SELECT 1 FROM claims c
    CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
    JOIN runs r ON r.id BETWEEN h.id AND h.id AND r.turn = h.turn
    WHERE c.node_id = $1 AND 'LEADER_ONLY' = ANY (r.place)
)
RETURNING epoch
