-- A setting that nobody wants any more, if it is the one that was seen, and who removed it.
WITH done AS (
    DELETE FROM settings WHERE name = $1 AND version = $2
    RETURNING 0 AS version
),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, job_id, outcome, details, runs)
    SELECT '00000000-0000-0000-0000-000000000000'::uuid, clock(), $3, 'SETTING_CHANGED', NULL, 'DONE', $4, '' FROM done
)
SELECT version FROM done
