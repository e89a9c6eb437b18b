-- Changed jobs, if they are those that the changes are based on and their names are free.
UPDATE jobs j
SET
    name = u.name, version = u.version, state = u.state, after_dependencies = u.after_dependencies,
    own_retention = u.own_retention, definition = u.definition, next_run = u.next_run, updated_at = u.updated_at
FROM unnest(
    $1::uuid[], $2::uuid[], $3::text[], $4::integer[], $5::text[], $6::boolean[], $7::boolean[], $8::text[],
    $9::bigint[], $10::bigint[], $11::integer[]
) AS u (
    id, tenant_id, name, version, state, after_dependencies, own_retention, definition, next_run, updated_at, expected
)
WHERE j.id = u.id AND j.version = u.expected AND j.state <> 'DELETED'
    AND NOT EXISTS (
        SELECT 1 FROM jobs o
        WHERE o.tenant_id = u.tenant_id AND o.name = u.name AND o.state <> 'DELETED' AND o.id <> u.id
    )
RETURNING j.id
