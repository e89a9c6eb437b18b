-- Audit row of a cancellation request, if this transaction has written it.
INSERT INTO audit (tenant_id, at, actor, kind, job_id, run_id, outcome, details, runs)
SELECT r.tenant_id, clock(), $2, 'JOB_CANCELLED', r.job_id, $1, r.outcome, $3, ''
FROM (
    SELECT tenant_id, job_id, 'REQUESTED' AS outcome FROM runs WHERE id = $1 AND xmin = pg_current_xact_id()::xid
    UNION ALL
    SELECT tenant_id, job_id, 'CANCELLED' FROM history WHERE id = $1 AND xmin = pg_current_xact_id()::xid
) AS r
