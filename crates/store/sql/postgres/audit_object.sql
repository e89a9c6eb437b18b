-- Who changed an object. Only what this transaction has written counts.
INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
SELECT
    tenant_id, clock(), $2, 'SETTING_CHANGED', 'DONE',
    format('{"kind":%s,"name":%s,"version":%s}', to_json(kind), to_json(name), version), ''
FROM objects
WHERE id = $1 AND xmin = pg_current_xact_id()::xid
