-- A job, deleted or not.
SELECT id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id
FROM jobs WHERE id = ?1
