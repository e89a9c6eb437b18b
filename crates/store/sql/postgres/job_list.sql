-- Jobs by name.
SELECT id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id
FROM jobs WHERE tenant_id = $1 AND name >= $2 AND state <> 'DELETED'
ORDER BY name LIMIT $3::bigint
