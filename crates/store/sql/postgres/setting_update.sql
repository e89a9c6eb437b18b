-- A setting, if it is the one that the change is based on, and who changed it.
WITH done AS (
    UPDATE settings SET value = $2, version = version + 1, changed_at = clock() WHERE name = $1 AND version = $3
    RETURNING version
),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, job_id, outcome, details, runs)
    SELECT '00000000-0000-0000-0000-000000000000'::uuid, clock(), $4, 'SETTING_CHANGED', NULL, 'DONE', $5, '' FROM done
)
SELECT version FROM done
