-- The state that a one-time job takes with the end of the run of its time, if this transaction has
-- recorded the end, and the version that it makes ($3 the actor). A job that was given another time
-- meanwhile keeps its state. Jobs are locked by id.
WITH done AS MATERIALIZED (
    SELECT j.id, u.state
    FROM unnest($1::uuid[], $2::text[]) AS u (run_id, state)
    JOIN history h ON h.id BETWEEN u.run_id AND u.run_id AND h.xmin = pg_current_xact_id()::xid
    JOIN jobs j ON j.id BETWEEN h.job_id AND h.job_id AND j.state || '' <> 'DELETED'
        AND j.once_at = h.scheduled_for
    ORDER BY j.id
    FOR NO KEY UPDATE OF j
), written AS (
    UPDATE jobs j SET state = d.state, next_run = NULL, version = j.version + 1
    FROM done d
    WHERE j.id BETWEEN d.id AND d.id
    RETURNING j.id, j.version, j.name, j.state, j.definition
)
INSERT INTO job_versions (job_id, version, name, state, definition, changed_at, changed_by, changed)
SELECT id, version, name, state, definition, clock(), $3, '["status"]' FROM written
ON CONFLICT (job_id, version) DO NOTHING
