-- Every node, and how much it holds.
SELECT
    n.id, n.name, n.address, n.version, n.roles, n.joined_at, n.renewed_at, n.lease_until, n.dead,
    coalesce(held.runs, 0) AS held, n.labels, n.capacity, n.settings_hash, n.draining, n.gone_at IS NOT NULL AS gone,
    (SELECT l.epoch FROM roles l WHERE l.node_id = n.id AND NOT n.dead) AS leads, n.http_capacity, n.clock_offset_us
FROM nodes n
LEFT JOIN (
    SELECT c.node_id, count(*) AS runs
    FROM claims c
    CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
    JOIN runs r ON r.id BETWEEN h.id AND h.id AND r.turn = h.turn
    GROUP BY c.node_id
) AS held ON held.node_id = n.id
ORDER BY n.joined_at, n.id
