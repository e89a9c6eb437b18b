-- A secret that was not there, and who made it.
WITH done AS (
    INSERT INTO secrets (tenant_id, job_id, name, version, key_id, data_key, value, changed_at, changed_by)
    VALUES ($1, $2, $3, 1, $4, $5, $6, clock(), $7)
    ON CONFLICT (tenant_id, job_id, name) DO NOTHING
    RETURNING version
),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, job_id, outcome, details, runs)
    SELECT $1, clock(), $7, 'SECRET_CHANGED', CASE WHEN $3 NOT LIKE ':%' THEN nullif($2, '00000000-0000-0000-0000-000000000000'::uuid) END, 'DONE', $8, '' FROM done
)
SELECT version FROM done
