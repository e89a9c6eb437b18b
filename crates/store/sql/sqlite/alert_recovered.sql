-- Failures of jobs whose latest run has completed, newest failure first.
UPDATE alerts SET settled = 1
WHERE NOT settled AND job_id IN (
    SELECT failed.job_id
    FROM (SELECT DISTINCT job_id FROM alerts WHERE NOT settled) AS failed
    WHERE 1 = (
        SELECT e.outcome FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq
        WHERE r.job_id = failed.job_id AND e.outcome <= 4 AND r.origin NOT IN (6, 8)
        ORDER BY r.id DESC LIMIT 1
    )
)
RETURNING at, kind, tenant_id, job_id, run_id, text
