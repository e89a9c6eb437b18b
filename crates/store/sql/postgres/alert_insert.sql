-- Alerts, unless they are known.
INSERT INTO alerts (id, at, kind, tenant_id, job_id, run_id, text, settled)
SELECT * FROM unnest(
    $1::uuid[], $2::bigint[], $3::text[], $4::uuid[], $5::uuid[], $6::uuid[], $7::text[], $8::boolean[]
)
ON CONFLICT (id) DO NOTHING
