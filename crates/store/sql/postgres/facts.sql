-- Runs that are about to start: whether the node still holds them, and which runs of their jobs come before.
-- $1 node, $2 to $4 grants, $5 jobs, $6 whether earlier runs matter.
WITH held AS (
    SELECT h.run_id, c.id + h.k AS fence
    FROM nodes n
    JOIN claims c ON c.node_id = n.id
    CROSS JOIN LATERAL unnest(c.run_ids) WITH ORDINALITY AS h (run_id, k)
    WHERE n.id = $1 AND NOT n.buried
)
SELECT
    r.id IS NOT NULL AS held, r.cancel_code IS NOT NULL AS cancel_requested,
    (SELECT j.state FROM jobs j WHERE j.id = u.job_id) AS job_state, e.ids, e.origins, e.waits
FROM unnest($2::uuid[], $3::bigint[], $4::integer[], $5::uuid[], $6::boolean[])
    WITH ORDINALITY AS u (run_id, fence, turn, job_id, earlier, place)
LEFT JOIN LATERAL (
    SELECT r.id, r.job_id, r.order_at, r.cancel_code
    FROM runs r
    WHERE r.id BETWEEN u.run_id AND u.run_id AND r.turn = u.turn
        AND ((u.run_id, u.fence) IN (SELECT run_id, fence FROM held)) IS TRUE
) AS r ON true
LEFT JOIN LATERAL (
    SELECT array_agg(x.id) AS ids, array_agg(x.origin) AS origins, array_agg(x.wait) AS waits
    FROM (
        SELECT e.id, e.origin, e.wait FROM runs e
        WHERE u.earlier AND e.job_id = r.job_id AND (e.order_at, e.id) < (r.order_at, r.id)
        ORDER BY e.order_at, e.id LIMIT 64
    ) AS x
) AS e ON true
ORDER BY u.place
