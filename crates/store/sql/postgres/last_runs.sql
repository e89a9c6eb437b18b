-- The newest executed run of each of these jobs; the latest ones are enough.
SELECT j.job_id, h.scheduled_for, h.outcome
FROM unnest($1::uuid[]) AS j (job_id)
CROSS JOIN LATERAL (
    SELECT newest.scheduled_for, newest.outcome
    FROM (
        SELECT id, scheduled_for, outcome, origin FROM history WHERE job_id BETWEEN j.job_id AND j.job_id
        ORDER BY job_id DESC, id DESC LIMIT 100
    ) AS newest
    WHERE newest.outcome <= 4 AND newest.origin NOT IN (6, 8)
    ORDER BY newest.id DESC LIMIT 1
) AS h
