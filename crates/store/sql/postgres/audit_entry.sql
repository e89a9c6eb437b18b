-- Who made or changed an entry. Only what this transaction has written counts. A tenant can read about itself too.
INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
SELECT
    whose.tenant_id, clock(), $2::text, $3::text, 'DONE',
    format(
        '{"name":%s,"state":%s%s,"version":%s}',
        to_json(i.name), $4::text, ',"user":' || to_json(o.name)::text, i.version
    ), ''
FROM identities i
LEFT JOIN identities o ON o.id = i.owner_id
CROSS JOIN unnest(CASE WHEN i.kind = 1 THEN ARRAY[i.tenant_id, i.id] ELSE ARRAY[i.tenant_id] END) AS whose (tenant_id)
WHERE i.id = $1::uuid AND i.xmin = pg_current_xact_id()::xid
