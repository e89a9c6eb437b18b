-- Tenants are told about dead letters, unless somebody was faster.
INSERT INTO dead_letter_notices AS n (tenant_id, told_at)
SELECT u.tenant_id, $2::bigint FROM unnest($1::uuid[]) AS u (tenant_id) ORDER BY u.tenant_id
ON CONFLICT (tenant_id) DO UPDATE SET told_at = excluded.told_at WHERE n.told_at <= excluded.told_at - $3::bigint
