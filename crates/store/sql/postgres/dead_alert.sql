-- The alerts of tenants who are told by this very transaction.
INSERT INTO alerts (id, at, kind, tenant_id, job_id, text, settled)
SELECT u.id, n.told_at, $1, n.tenant_id, $2, u.text, true
FROM unnest($3::uuid[], $4::uuid[], $5::text[]) AS u (id, tenant_id, text)
JOIN dead_letter_notices n ON n.tenant_id = u.tenant_id AND n.xmin = pg_current_xact_id()::xid
ON CONFLICT (id) DO NOTHING
RETURNING id
