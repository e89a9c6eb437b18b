-- The version of a secret.
SELECT version FROM secrets WHERE tenant_id = $1 AND job_id = $2 AND name = $3
