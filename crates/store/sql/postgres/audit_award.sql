-- Who gave something. Only what this transaction has written counts.
INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
SELECT
    a.tenant_id, clock(), $2::text, 'GRANT_CHANGED', 'DONE',
    format(
        '{"%s":%s,"to_%s":%s}',
        CASE WHEN a.role_id IS NULL THEN 'privilege' ELSE 'role' END, to_json(coalesce(a.privilege, r.name, a.role_id::text)),
        CASE t.kind WHEN 3 THEN 'role' ELSE 'user' END, to_json(coalesce(t.name, a.to_id::text))
    ), ''
FROM awards a
LEFT JOIN identities t ON t.id = a.to_id
LEFT JOIN identities r ON r.id = a.role_id
WHERE a.id = $1::uuid AND a.xmin = pg_current_xact_id()::xid
