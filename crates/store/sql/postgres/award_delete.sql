-- Takes something away, and says who did.
WITH a AS (DELETE FROM awards WHERE id = $1::uuid RETURNING id, tenant_id, to_id, role_id, privilege),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
    SELECT
        a.tenant_id, clock(), $2::text, 'GRANT_CHANGED', 'DELETED',
        format(
            '{"%s":%s,"to_%s":%s}',
            CASE WHEN a.role_id IS NULL THEN 'privilege' ELSE 'role' END, to_json(coalesce(a.privilege, r.name, a.role_id::text)),
            CASE t.kind WHEN 3 THEN 'role' ELSE 'user' END, to_json(coalesce(t.name, a.to_id::text))
        ), ''
    FROM a
    LEFT JOIN identities t ON t.id = a.to_id
    LEFT JOIN identities r ON r.id = a.role_id
)
SELECT id FROM a
