-- Who has a name.
SELECT id FROM jobs WHERE tenant_id = ?1 AND name = ?2 AND state <> 'DELETED'
