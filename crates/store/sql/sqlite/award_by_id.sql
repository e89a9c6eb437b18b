-- One award.
SELECT id, tenant_id, to_id, role_id, privilege FROM awards WHERE id = ?1
