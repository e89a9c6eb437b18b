-- A request that came to nothing.
DELETE FROM requests WHERE tenant_id = ?1 AND key = ?2 AND status IS NULL
