-- A setting that was not there, and who made it.
WITH done AS (
    INSERT INTO settings (name, value, version, changed_at) VALUES ($1, $2, 1, clock())
    ON CONFLICT (name) DO NOTHING
    RETURNING version
),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, job_id, outcome, details, runs)
    SELECT '00000000-0000-0000-0000-000000000000'::uuid, clock(), $3, 'SETTING_CHANGED', NULL, 'DONE', $4, '' FROM done
)
SELECT version FROM done
