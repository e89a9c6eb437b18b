-- Creation, changes and deletion of a job, newest first.
SELECT at, actor, kind, outcome, details FROM audit
WHERE job_id = $1 AND kind IN ('JOB_CREATED', 'JOB_MODIFIED', 'JOB_DELETED')
ORDER BY place DESC LIMIT $2
