-- What was given in a tenant, to everybody or to one.
SELECT id, tenant_id, to_id, role_id, privilege FROM awards
WHERE tenant_id = $1 AND id > $2 AND ($3::uuid IS NULL OR to_id = $3)
ORDER BY id LIMIT $4::bigint
