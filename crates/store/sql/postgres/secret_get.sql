-- Secrets as they are kept.
SELECT s.tenant_id, s.job_id, s.name, s.version, s.key_id, s.data_key, s.value, s.changed_by
FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS u (tenant_id, job_id, name)
JOIN secrets s ON s.tenant_id = u.tenant_id AND s.job_id = u.job_id AND s.name = u.name
