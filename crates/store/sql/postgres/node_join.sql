-- A node begins. One that was buried cannot come back.
INSERT INTO nodes AS n (id, name, joined_at, lease_until, buried, address, version, roles, renewed_at)
VALUES ($1, $2, clock(), clock() + $3::bigint, false, $4, $5, $6, clock())
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name, lease_until = excluded.lease_until, address = excluded.address, version = excluded.version,
    roles = excluded.roles, renewed_at = excluded.renewed_at
WHERE NOT n.buried
