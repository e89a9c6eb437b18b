-- Jobs that are not deleted.
SELECT id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id
FROM jobs WHERE tenant_id = $1 AND name = ANY ($2::text[]) AND state <> 'DELETED'
