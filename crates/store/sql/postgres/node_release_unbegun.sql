-- Releases the runs of a node that had not begun. Runs under the gate and the node's lock. $1 node,
-- $2 the runs that it had begun.
UPDATE runs r SET turn = r.turn + 1
FROM nodes n
JOIN claims c ON c.node_id = n.id
CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
WHERE n.id = $1 AND NOT n.dead AND r.id BETWEEN h.id AND h.id AND r.turn = h.turn AND h.id <> ALL ($2::uuid[])
