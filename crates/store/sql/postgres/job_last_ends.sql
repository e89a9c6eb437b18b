-- Jobs that others depend on from now on: what their runs came to so far. A look at a thousand is
-- enough. Under the gate.
INSERT INTO last_ends AS l (job_id, outcome, finished_at, succeeded_at, fence)
SELECT u.job_id, h.outcome, h.finished_at, h.succeeded_at, (SELECT fence FROM gate)
FROM (SELECT DISTINCT job_id FROM unnest($1::uuid[]) AS d (job_id)) AS u
CROSS JOIN LATERAL (
    SELECT
        outcome, finished_at, max(finished_at) FILTER (WHERE outcome = 1) OVER () AS succeeded_at
    FROM (
        SELECT outcome, finished_at, origin FROM history WHERE job_id BETWEEN u.job_id AND u.job_id
        ORDER BY job_id DESC, id DESC LIMIT 1000
    ) AS newest
    WHERE outcome <= 4 AND origin NOT IN (6, 8)
    ORDER BY finished_at DESC LIMIT 1
) AS h
ON CONFLICT (job_id) DO UPDATE SET
    outcome = CASE WHEN l.finished_at > excluded.finished_at THEN l.outcome ELSE excluded.outcome END,
    finished_at = greatest(l.finished_at, excluded.finished_at),
    succeeded_at = greatest(l.succeeded_at, excluded.succeeded_at),
    fence = excluded.fence
