-- What a tenant's people did, newest first.
SELECT place, at, tenant_id, actor, kind, job_id, run_id, outcome, details, node_id, runs, number, hash FROM audit
WHERE tenant_id = ?1 AND place <= ?2
    AND (?3 IS NULL OR kind IN (SELECT value FROM json_each(?3)))
    AND (?4 IS NULL OR actor = ?4)
    AND (?5 IS NULL OR job_id = ?5 OR kind IN ('RUNS_ENDED', 'RUNS_REQUESTED'))
    AND (?6 IS NULL OR at >= ?6) AND (?7 IS NULL OR at < ?7)
ORDER BY place DESC LIMIT ?8
