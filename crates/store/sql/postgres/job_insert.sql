-- New jobs, unless their names or ids are taken, or their tenant has as many as it may have.
WITH new AS (
    SELECT u.*, row_number() OVER (PARTITION BY tenant_id) AS nth
    FROM unnest(
        $1::uuid[], $2::uuid[], $3::text[], $4::integer[], $5::text[], $6::boolean[], $7::boolean[], $8::text[],
        $9::bigint[], $10::bigint[], $11::bigint[], $12::uuid[], $13::bigint[]
    ) AS u (
        id, tenant_id, name, version, state, after_dependencies, own_retention, definition, next_run, created_at,
        updated_at, owner_id, once_at
    )
),
room AS (
    SELECT
        q.tenant_id,
        q.max_jobs - (SELECT count(*) FROM jobs j WHERE j.tenant_id = q.tenant_id AND j.state <> 'DELETED') AS n
    FROM quotas q
    WHERE q.max_jobs IS NOT NULL AND q.tenant_id IN (SELECT tenant_id FROM new)
)
INSERT INTO jobs (
    id, tenant_id, name, version, state, after_dependencies, own_retention, definition, next_run, created_at,
    updated_at, owner_id, once_at
)
SELECT
    id, tenant_id, name, version, state, after_dependencies, own_retention, definition, next_run, created_at,
    updated_at, owner_id, once_at
FROM new
WHERE NOT EXISTS (SELECT 1 FROM room WHERE room.tenant_id = new.tenant_id AND new.nth > room.n)
ON CONFLICT DO NOTHING
RETURNING id
