-- Locks the runs that a node holds, by id, before the gate. $1 node, $2 the claims to look into; all of the node's if none.
SELECT r.id
FROM claims c
CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
JOIN runs r ON r.id BETWEEN h.id AND h.id AND r.turn = h.turn
WHERE c.node_id = $1 AND ($2::bigint[] IS NULL OR c.id = ANY ($2))
ORDER BY r.id
FOR UPDATE OF r
