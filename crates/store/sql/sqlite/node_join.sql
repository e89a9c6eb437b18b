-- A node begins, or begins again after its lease ran out.
INSERT INTO nodes (id, name, lease_until, dead, address, version, roles, joined_at, renewed_at, labels, capacity,
    settings_hash, draining, http_capacity)
VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (id) DO UPDATE SET name = ?2, lease_until = ?3, address = ?4, version = ?5, roles = ?6, renewed_at = ?7,
    labels = ?8, capacity = ?9, settings_hash = ?10, http_capacity = ?12
WHERE NOT dead
