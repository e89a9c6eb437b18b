-- A run that is not to be claimed any more.
DELETE FROM queue WHERE tenant_id = ?1 AND lane = ?2 AND due_at = ?3 AND seq = ?4
