-- Changed jobs, if they are those that the changes are based on, their names are free, and nothing that they were due
-- for is left unplanned when their schedule ends ($12). The next time moves only with the schedule ($13), and not to a
-- time that has come meanwhile, unless the job is due only once (at $14).
WITH clock AS MATERIALIZED (SELECT clock() AS now)
UPDATE jobs j
SET
    name = u.name, version = u.version, state = u.state, after_dependencies = u.after_dependencies,
    own_retention = u.own_retention, definition = u.definition,
    next_run = CASE WHEN u.moves THEN u.next_run ELSE j.next_run END, updated_at = u.updated_at,
    once_at = u.once_at
FROM unnest(
    $1::uuid[], $2::uuid[], $3::text[], $4::integer[], $5::text[], $6::boolean[], $7::boolean[], $8::text[],
    $9::bigint[], $10::bigint[], $11::integer[], $12::boolean[], $13::boolean[], $14::bigint[]
) AS u (
    id, tenant_id, name, version, state, after_dependencies, own_retention, definition, next_run, updated_at, expected,
    ends, moves, once_at
)
WHERE j.id BETWEEN u.id AND u.id AND j.version = u.expected AND j.state || '' <> 'DELETED'
    AND (NOT u.ends OR j.state <> 'ENABLED' OR j.next_run IS NULL OR j.next_run > (SELECT now FROM clock))
    AND NOT coalesce(u.moves AND u.once_at IS NULL AND u.next_run <= (SELECT now FROM clock), false)
    AND coalesce((
        SELECT o.id FROM jobs o WHERE o.tenant_id = u.tenant_id AND o.name = u.name AND o.state <> 'DELETED'
    ), u.id) = u.id
RETURNING j.id
