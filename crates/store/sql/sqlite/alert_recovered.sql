-- Failures of jobs whose latest run has completed, newest failure first.
UPDATE alerts SET settled = 1
WHERE NOT settled AND job_id IN (
    SELECT failed.job_id
    FROM (SELECT DISTINCT job_id FROM alerts WHERE NOT settled) AS failed
    WHERE 1 = (
        SELECT outcome FROM history
        WHERE history.job_id = failed.job_id AND history.outcome <= 4
        ORDER BY history.id DESC LIMIT 1
    )
)
RETURNING at, kind, tenant_id, job_id, run_id, text
