-- Runs that a node holds, with their claims. Runs under the node's lock.
SELECT
    r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.shard, r.due_at, r.lane, r.origin, r.coalesced,
    r.ignore_dependencies, r.parameters, r.attempts, r.lost, r.turn, c.id + h.k AS fence, c.id AS claim
FROM nodes n
JOIN claims c ON c.node_id = n.id
CROSS JOIN LATERAL unnest(c.run_ids, c.turns) WITH ORDINALITY AS h (id, turn, k)
JOIN runs r ON r.id BETWEEN h.id AND h.id AND r.turn = h.turn
WHERE n.id = $1 AND NOT n.dead
ORDER BY fence
