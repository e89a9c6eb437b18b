-- New jobs, unless their names or ids are taken.
INSERT INTO jobs (
    id, tenant_id, name, version, state, after_dependencies, own_retention, definition, next_run, created_at, updated_at
)
SELECT * FROM unnest(
    $1::uuid[], $2::uuid[], $3::text[], $4::integer[], $5::text[], $6::boolean[], $7::boolean[], $8::text[],
    $9::bigint[], $10::bigint[], $11::bigint[]
)
ON CONFLICT DO NOTHING
RETURNING id
