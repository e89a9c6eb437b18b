-- Drains, resumes or removes a node, with its audit row. Only a node that missed heartbeats can be
-- removed, and no such node can be drained.
WITH done AS (
    UPDATE nodes SET
        draining = CASE $2::text WHEN 'DRAINED' THEN true WHEN 'RESUMED' THEN false ELSE draining END,
        gone_at = CASE $2::text WHEN 'REMOVED' THEN clock() END
    WHERE id = $1 AND gone_at IS NULL AND dead = ($2::text = 'REMOVED')
    RETURNING id
),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, job_id, outcome, details, runs)
    SELECT '00000000-0000-0000-0000-000000000000'::uuid, clock(), $3, 'NODE_CHANGED', NULL, $2, $4, '' FROM done
)
SELECT id FROM done
