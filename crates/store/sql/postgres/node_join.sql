-- A node begins. One that was buried cannot come back.
INSERT INTO nodes AS n (id, name, joined_at, lease_until, buried)
VALUES ($1, $2, clock(), clock() + $3::bigint, false)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, lease_until = excluded.lease_until WHERE NOT n.buried
