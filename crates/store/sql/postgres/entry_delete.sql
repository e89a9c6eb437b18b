-- Removes an entry, if it is the one that was meant, and what belongs to it; a tenant only when nothing is left in it.
-- Says who did.
WITH gone AS (
    DELETE FROM identities
    WHERE id = $1::uuid AND ($2::integer IS NULL OR version = $2)
        AND NOT (kind = 1 AND (
            EXISTS (SELECT 1 FROM identities o WHERE o.tenant_id = $1)
            OR EXISTS (SELECT 1 FROM jobs j WHERE j.tenant_id = $1 AND j.state <> 'DELETED')
        ))
    RETURNING id, kind, tenant_id, name, owner_id
),
owned AS (DELETE FROM identities WHERE owner_id IN (SELECT id FROM gone)),
given AS (DELETE FROM awards WHERE to_id IN (SELECT id FROM gone) OR role_id IN (SELECT id FROM gone)),
quota AS (DELETE FROM quotas WHERE tenant_id IN (SELECT id FROM gone)),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
    SELECT
        g.tenant_id, clock(), $3::text,
        CASE g.kind
            WHEN 1 THEN 'TENANT_CHANGED' WHEN 2 THEN 'USER_CHANGED' WHEN 3 THEN 'ROLE_CHANGED' ELSE 'KEY_CHANGED'
        END,
        'DELETED', format('{"name":%s%s,"version":0}', to_json(g.name), ',"user":' || to_json(o.name)::text), ''
    FROM gone g LEFT JOIN identities o ON o.id = g.owner_id
)
SELECT id FROM gone
