-- The data key of a secret under another master key, if the secret is the one that was read.
UPDATE secrets SET key_id = ?6, data_key = ?7
WHERE tenant_id = ?1 AND job_id = ?2 AND name = ?3 AND version = ?4 AND key_id = ?5
