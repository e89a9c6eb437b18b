-- A new job, unless its id is taken.
INSERT INTO jobs (id, tenant_id, name, version, state, after_dependencies, own_retention, definition, next_run, created_at,
    updated_at, owner_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (id) DO NOTHING
