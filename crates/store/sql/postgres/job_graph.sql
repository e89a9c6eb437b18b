-- Which job of a tenant depends on which.
SELECT u.job_id, u.depends_on
FROM jobs j CROSS JOIN LATERAL (SELECT job_id, depends_on FROM upstream WHERE job_id = j.id OFFSET 0) AS u
WHERE j.tenant_id = $1 AND j.state <> 'DELETED'
