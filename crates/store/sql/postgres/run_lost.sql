-- The runs of dead nodes.
SELECT
    r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.shard, r.due_at, r.lane, r.origin, r.coalesced,
    r.ignore_dependencies, r.parameters, r.attempts, r.lost, r.turn, c.id + h.k AS fence, n.id AS node_id,
    n.lease_until, (r.begun = r.turn + 1) IS TRUE AS is_begun
FROM nodes n
JOIN claims c ON c.node_id = n.id
CROSS JOIN LATERAL unnest(c.run_ids, c.turns) WITH ORDINALITY AS h (id, turn, k)
JOIN runs r ON r.id BETWEEN h.id AND h.id AND r.turn = h.turn
WHERE n.dead
LIMIT $1::bigint
