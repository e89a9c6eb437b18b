-- Secrets of a tenant or of the cluster, without their values. Those of objects are not for people.
SELECT tenant_id, job_id, name, version, key_id, changed_at, changed_by FROM secrets
WHERE tenant_id = $1 AND (job_id, name) > ($2, $3) AND name NOT LIKE ':%'
ORDER BY job_id, name LIMIT $4
