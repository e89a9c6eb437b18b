-- The secrets of jobs that are gone, and the rights to queues that are.
WITH gone AS (SELECT id, tenant_id FROM jobs WHERE id = ANY ($1::uuid[]) AND state = 'DELETED'),
secret AS (DELETE FROM secrets s USING gone g WHERE s.tenant_id = g.tenant_id AND s.job_id = g.id)
DELETE FROM awards a USING gone g WHERE a.queue_id = g.id
