-- Enabled jobs whose time is near, by index; the clock comes first, even if there is no job. $3 has a bit for each bucket
-- whose jobs are meant; none for all.
SELECT j.*, c.now
FROM (SELECT clock() AS now) AS c
LEFT JOIN LATERAL (
    SELECT id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id
    FROM jobs
    WHERE state = 'ENABLED' AND next_run IS NOT NULL AND next_run <= c.now + $1::bigint
        AND ($3::bytea IS NULL OR get_bit($3, get_byte(uuid_send(id), 15)) = 1)
    ORDER BY next_run
    LIMIT $2::bigint
) AS j ON true
