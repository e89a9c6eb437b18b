-- The tenant is gone.
DELETE FROM quotas WHERE tenant_id = ?1
