-- Jobs in the order of their changes, after a cursor, deleted ones included.
SELECT id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id
FROM jobs WHERE (updated_at, id) > (?1, ?2)
ORDER BY updated_at, id LIMIT ?3
