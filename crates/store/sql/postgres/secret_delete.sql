-- A secret that nobody wants any more, if it is the one that was seen, and who removed it.
WITH done AS (
    DELETE FROM secrets WHERE tenant_id = $1 AND job_id = $2 AND name = $3 AND version = $4
    RETURNING 0 AS version
),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, job_id, outcome, details, runs)
    SELECT $1, clock(), $5, 'SECRET_CHANGED', CASE WHEN $3 NOT LIKE ':%' THEN nullif($2, '00000000-0000-0000-0000-000000000000'::uuid) END, 'DELETED', $6, '' FROM done
)
SELECT version FROM done
