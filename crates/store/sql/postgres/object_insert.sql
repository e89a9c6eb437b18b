-- An object that was not there.
INSERT INTO objects (id, tenant_id, kind, name, body, version, created_at, changed_at) VALUES ($1, $2, $3, $4, $5, 1, clock(), clock())
ON CONFLICT DO NOTHING
RETURNING id, tenant_id, kind, name, body, version, created_at, changed_at
