-- Cause of a refused write: the job that has the name, and the current version of the job.
SELECT
    (SELECT o.id FROM jobs o WHERE o.tenant_id = u.tenant_id AND o.name = u.name AND o.state <> 'DELETED'),
    (SELECT j.version FROM jobs j WHERE j.id = u.id AND j.state || '' <> 'DELETED')
FROM unnest($1::uuid[], $2::uuid[], $3::text[]) WITH ORDINALITY AS u (id, tenant_id, name, place)
ORDER BY u.place
