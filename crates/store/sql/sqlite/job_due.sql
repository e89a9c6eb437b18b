-- Enabled jobs whose time is near, by index. The reader stops when there are enough.
SELECT id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id
FROM jobs
WHERE state = 'ENABLED' AND next_run IS NOT NULL AND next_run <= ?1
ORDER BY next_run
