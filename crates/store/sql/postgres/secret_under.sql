-- Secrets that are sealed under a master key.
SELECT tenant_id, job_id, name, version, key_id, data_key, value, changed_by FROM secrets
WHERE key_id = $1 AND (tenant_id, job_id, name) > ($2, $3, $4)
ORDER BY tenant_id, job_id, name LIMIT $5
