-- Every node.
SELECT n.id, n.name, n.address, n.version, n.roles, n.joined_at, n.renewed_at, n.lease_until, n.dead, n.labels, n.capacity,
    n.settings_hash, n.draining, n.gone_at IS NOT NULL, (SELECT r.epoch FROM roles AS r WHERE r.node_id = n.id AND NOT n.dead),
    n.http_capacity, n.clock_offset_us
FROM nodes AS n ORDER BY n.joined_at, n.id
