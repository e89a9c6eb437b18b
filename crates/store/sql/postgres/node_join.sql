-- Registers a node. A node that was declared dead cannot come back; one of the same name that
-- missed heartbeats is replaced by this one.
WITH back AS (
    UPDATE nodes SET gone_at = clock() WHERE name = $2 AND id <> $1 AND dead AND gone_at IS NULL RETURNING draining
)
INSERT INTO nodes AS n (
    id, name, joined_at, lease_until, dead, address, version, roles, renewed_at, labels, capacity, settings_hash, draining,
    http_capacity
)
VALUES (
    $1, $2, clock(), clock() + $3::bigint, false, $4, $5, $6, clock(), $7, $8, $9,
    (SELECT coalesce(bool_or(draining), false) FROM back), $10
)
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name, lease_until = excluded.lease_until, address = excluded.address, version = excluded.version,
    roles = excluded.roles, renewed_at = excluded.renewed_at, labels = excluded.labels, capacity = excluded.capacity,
    settings_hash = excluded.settings_hash, http_capacity = excluded.http_capacity
WHERE NOT n.dead
