-- The secrets of jobs that are gone.
DELETE FROM secrets s USING jobs j
WHERE j.id = ANY ($1::uuid[]) AND j.state = 'DELETED' AND s.tenant_id = j.tenant_id AND s.job_id = j.id
