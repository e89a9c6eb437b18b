-- Runs that are about to start and that the node still holds, with the runs of their jobs that come before: a row for
-- each of these, or one without. $1 node, $2 to $4 grants, $5 jobs, $6 whether other runs matter. $7 are the claims that
-- all grants are from, if known: as long as these are there and whole, they need not be looked into.
WITH known AS MATERIALIZED (
    SELECT count(*) = cardinality($7::bigint[]) AS yes
    FROM nodes n
    JOIN claims c ON c.node_id = n.id
    WHERE n.id = $1 AND NOT n.dead AND n.lease_until >= clock() AND c.id = ANY ($7) AND c.whole
),
held AS (
    SELECT h.run_id, c.id + h.k AS fence
    FROM nodes n
    JOIN claims c ON c.node_id = n.id
    CROSS JOIN LATERAL unnest(c.run_ids) WITH ORDINALITY AS h (run_id, k)
    WHERE n.id = $1 AND NOT n.dead AND n.lease_until >= clock()
)
SELECT u.place, r.cancel_code IS NOT NULL AS cancel_requested, j.state, e.id, e.origin, e.wait,
    CASE WHEN r.origin IN (1, 2) AND r.scheduled_for > clock() THEN r.scheduled_for - clock() END AS early_by,
    coalesce(j.version, 0) AS version, e.was_tried, r.order_at, nextval('start_tokens') AS token
FROM unnest($2::uuid[], $3::bigint[], $4::integer[], $5::uuid[], $6::boolean[])
    WITH ORDINALITY AS u (run_id, fence, turn, job_id, earlier, place)
JOIN runs r ON r.id BETWEEN u.run_id AND u.run_id AND r.turn = u.turn
LEFT JOIN jobs j ON j.id BETWEEN u.job_id AND u.job_id
LEFT JOIN LATERAL (
    SELECT e.id, e.origin, e.wait, e.order_at, e.attempts + e.lost > 0 AS was_tried FROM runs e
    WHERE u.earlier AND e.job_id = r.job_id AND (e.order_at, e.id) < (r.order_at, r.id) AND e.origin NOT IN (6, 8)
    ORDER BY e.order_at, e.id LIMIT 64
) AS e ON true
WHERE ((SELECT yes FROM known) OR (u.run_id, u.fence) IN (SELECT run_id, fence FROM held)) IS TRUE
ORDER BY u.place, e.order_at, e.id
