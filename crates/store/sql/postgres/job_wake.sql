-- Runs of jobs that this very transaction has deleted or freed of their dependencies look again.
UPDATE runs r SET wait = 0, wait_until = NULL
FROM jobs j
WHERE j.id = ANY ($1::uuid[]) AND j.xmin = pg_current_xact_id()::xid
    AND r.job_id = j.id AND r.wait <> 0 AND (r.wait = 2 OR j.state = 'DELETED')
