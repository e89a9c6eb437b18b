-- Continues run_insert: leaves out runs that were made of another version of their job than the
-- current one, or of a deleted job. $16 and $17 are all jobs and versions that runs were made of,
-- each pair once.
WHERE ((coalesce(job_id, ($2)[1]), coalesce(job_version, ($4)[1])) IN (
    SELECT v.job_id, v.version
    FROM unnest($16::uuid[], $17::integer[]) AS v (job_id, version)
    LEFT JOIN jobs j ON j.id BETWEEN v.job_id AND v.job_id
    WHERE j.version IS DISTINCT FROM v.version OR j.state = 'DELETED'
)) IS NOT TRUE
