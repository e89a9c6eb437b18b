-- A changed job, if it is the one that the change is based on.
UPDATE jobs
SET name = ?3, version = ?4, state = ?5, after_dependencies = ?6, own_retention = ?7, definition = ?8, next_run = ?9,
    updated_at = ?10
WHERE id = ?1 AND version = ?2 AND state <> 'DELETED'
