-- How many jobs a tenant may have, and how many it has.
SELECT max_jobs, (SELECT count(*) FROM jobs WHERE tenant_id = ?1 AND state <> 'DELETED')
FROM quotas WHERE tenant_id = ?1 AND max_jobs IS NOT NULL
