-- Of jobs ($1) and versions of them ($2) those that are not the present ones, or whose job is deleted.
SELECT v.job_id, v.version
FROM unnest($1::uuid[], $2::integer[]) AS v (job_id, version)
LEFT JOIN jobs j ON j.id BETWEEN v.job_id AND v.job_id
WHERE j.version IS DISTINCT FROM v.version OR j.state = 'DELETED'
