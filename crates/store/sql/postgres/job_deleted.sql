-- Deleted jobs of a tenant, the youngest first.
SELECT id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id
FROM jobs WHERE state = 'DELETED' AND id < $2 AND tenant_id = $1
ORDER BY id DESC LIMIT $3::bigint
