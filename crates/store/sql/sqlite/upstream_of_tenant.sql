-- The graph of a tenant.
SELECT upstream.job_id, upstream.depends_on
FROM upstream JOIN jobs ON jobs.id = upstream.job_id
WHERE jobs.tenant_id = ?1 AND jobs.state <> 'DELETED'
