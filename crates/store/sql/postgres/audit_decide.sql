-- Audit row of a decision about a lost run, if this transaction has written it.
INSERT INTO audit (tenant_id, at, actor, kind, job_id, run_id, outcome, details, runs)
SELECT r.tenant_id, clock(), $2, 'RUN_DECIDED', r.job_id, $1, $4, $3, ''
FROM (
    SELECT tenant_id, job_id FROM runs WHERE id = $1 AND xmin = pg_current_xact_id()::xid
    UNION ALL
    SELECT tenant_id, job_id FROM history WHERE id = $1 AND xmin = pg_current_xact_id()::xid
) AS r
