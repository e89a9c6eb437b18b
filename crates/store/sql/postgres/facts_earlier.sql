-- The oldest live runs of jobs: those that come before any run of the job are the first of them. $1 jobs, $2 how many.
SELECT u.job_id, e.id, e.origin, e.wait, e.order_at, e.was_tried
FROM unnest($1::uuid[]) AS u (job_id)
CROSS JOIN LATERAL (
    SELECT e.id, e.origin, e.wait, e.order_at, e.attempts + e.lost > 0 AS was_tried FROM runs e
    WHERE e.job_id = u.job_id AND e.origin NOT IN (6, 8)
    ORDER BY e.order_at, e.id LIMIT $2
) AS e
ORDER BY u.job_id, e.order_at, e.id
