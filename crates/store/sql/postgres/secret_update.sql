-- A secret, if it is the one that the change is based on, and who changed it.
WITH done AS (
    UPDATE secrets
    SET version = version + 1, key_id = $5, data_key = $6, value = $7, changed_at = clock(), changed_by = $8
    WHERE tenant_id = $1 AND job_id = $2 AND name = $3 AND version = $4
    RETURNING version
),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, job_id, outcome, details, runs)
    SELECT $1, clock(), $8, 'SECRET_CHANGED', CASE WHEN $3 NOT LIKE ':%' THEN nullif($2, '00000000-0000-0000-0000-000000000000'::uuid) END, 'DONE', $9, '' FROM done
)
SELECT version FROM done
