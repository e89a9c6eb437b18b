-- Settles failures of jobs whose latest run has completed. The newest partition that has one is the last to be read.
WITH failed AS (
    SELECT DISTINCT job_id FROM alerts WHERE NOT settled
),
recovered AS MATERIALIZED (
    SELECT f.job_id FROM failed f
    WHERE 1 = (
        SELECT h.outcome
        FROM (SELECT first, until FROM history_ranges ORDER BY first DESC) AS p
        CROSS JOIN LATERAL (
            SELECT h.outcome FROM history h
            WHERE (h.job_id, h.id) >= (f.job_id, p.first) AND (h.job_id, h.id) < (f.job_id, p.until)
                AND h.outcome <= 4 AND h.origin NOT IN (6, 8)
            ORDER BY h.job_id DESC, h.id DESC LIMIT 1
        ) AS h
        LIMIT 1
    )
)
UPDATE alerts a SET settled = true
FROM recovered r
WHERE a.job_id BETWEEN r.job_id AND r.job_id AND NOT a.settled
RETURNING a.at, a.kind, a.tenant_id, a.job_id, a.run_id, a.text
