-- Which job of a tenant depends on which.
SELECT u.job_id, u.depends_on
FROM jobs j JOIN upstream u ON u.job_id = j.id
WHERE j.tenant_id = $1 AND j.state <> 'DELETED'
