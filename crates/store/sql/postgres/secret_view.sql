-- A secret without its value.
SELECT tenant_id, job_id, name, version, key_id, changed_at, changed_by FROM secrets
WHERE tenant_id = $1 AND job_id = $2 AND name = $3
