-- A node ends and gives everything back. Under the gate and the node's lock.
WITH gone AS (
    UPDATE nodes SET buried = true, cleared = true, gone_at = clock(), renewed_at = clock() WHERE id = $1 AND NOT buried RETURNING id
),
claim AS (
    DELETE FROM claims WHERE node_id IN (SELECT id FROM gone) RETURNING run_ids, turns
)
UPDATE runs r SET turn = r.turn + 1
FROM claim c CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
WHERE r.id BETWEEN h.id AND h.id AND r.turn = h.turn
