-- Latest outcomes of upstream jobs. They are kept for jobs that others depend on; for the rest, the
-- thousand newest runs are enough.
SELECT
    u.job_id, j.name, coalesce(l.outcome, h.outcome) AS outcome, coalesce(l.finished_at, h.finished_at) AS finished_at,
    coalesce(l.succeeded_at, h.succeeded_at) AS succeeded_at
FROM unnest($1::uuid[]) AS u (job_id)
LEFT JOIN jobs j ON j.id BETWEEN u.job_id AND u.job_id
LEFT JOIN last_ends l ON l.job_id BETWEEN u.job_id AND u.job_id
LEFT JOIN LATERAL (
    SELECT outcome, finished_at, max(finished_at) FILTER (WHERE outcome = 1) OVER () AS succeeded_at
    FROM (
        SELECT outcome, finished_at, origin FROM history
        WHERE l.job_id IS NULL AND job_id BETWEEN u.job_id AND u.job_id
        ORDER BY job_id DESC, id DESC LIMIT 1000
    ) AS newest
    WHERE outcome <= 4 AND origin NOT IN (6, 8)
    ORDER BY finished_at DESC LIMIT 1
) AS h ON true
