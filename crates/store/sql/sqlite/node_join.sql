-- A node begins, or begins again after its lease ran out.
INSERT INTO nodes (id, name, lease_until, buried, address, version, roles, joined_at, renewed_at)
VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?7)
ON CONFLICT (id) DO UPDATE SET name = ?2, lease_until = ?3, address = ?4, version = ?5, roles = ?6, renewed_at = ?7
WHERE NOT buried
