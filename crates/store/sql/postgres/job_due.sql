-- Enabled jobs whose time is near, by index; the clock comes first, even if there is no job.
SELECT j.*, c.now
FROM (SELECT clock() AS now) AS c
LEFT JOIN LATERAL (
    SELECT id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id
    FROM jobs
    WHERE state = 'ENABLED' AND next_run IS NOT NULL AND next_run <= c.now + $1::bigint
    ORDER BY next_run
    LIMIT $2::bigint
) AS j ON true
