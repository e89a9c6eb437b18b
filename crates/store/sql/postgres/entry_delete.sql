-- Removes an entry, if it is the one that was meant, and what belongs to it; a tenant only when nothing is left in it.
WITH gone AS (
    DELETE FROM identities
    WHERE id = $1::uuid AND ($2::integer IS NULL OR version = $2)
        AND NOT (kind = 1 AND (
            EXISTS (SELECT 1 FROM identities o WHERE o.tenant_id = $1)
            OR EXISTS (SELECT 1 FROM jobs j WHERE j.tenant_id = $1 AND j.state <> 'DELETED')
        ))
    RETURNING id
),
owned AS (DELETE FROM identities WHERE owner_id IN (SELECT id FROM gone)),
given AS (DELETE FROM awards WHERE to_id IN (SELECT id FROM gone) OR role_id IN (SELECT id FROM gone)),
quota AS (DELETE FROM quotas WHERE tenant_id IN (SELECT id FROM gone))
SELECT id FROM gone
