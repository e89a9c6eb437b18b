-- A secret, if it is the one that the change is based on.
UPDATE secrets SET version = ?4 + 1, key_id = ?5, data_key = ?6, value = ?7, changed_at = ?8, changed_by = ?9
WHERE tenant_id = ?1 AND job_id = ?2 AND name = ?3 AND version = ?4
