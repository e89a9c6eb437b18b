-- The state that a job takes with the end of a run, such as that of a one-time job, if this very
-- transaction has recorded the end.
UPDATE jobs j
SET state = u.state, next_run = NULL, version = j.version + 1
FROM unnest($1::uuid[], $2::text[]) AS u (run_id, state)
JOIN history h ON h.id BETWEEN u.run_id AND u.run_id AND h.xmin = pg_current_xact_id()::xid
WHERE j.id BETWEEN h.job_id AND h.job_id AND j.state || '' <> 'DELETED'
