-- Runs that are about to start and that the node still holds. $1 node, $2 to $4 claims of runs, $5 jobs. $6 are the rows of
-- the table claims that they are from, if known: as long as these are there and whole, they need not be looked into.
WITH known AS MATERIALIZED (
    SELECT count(*) = cardinality($6::bigint[]) AS yes
    FROM nodes n
    JOIN claims c ON c.node_id = n.id
    WHERE n.id = $1 AND NOT n.dead AND n.lease_until >= clock() AND c.id = ANY ($6) AND c.whole
),
held AS (
    SELECT h.run_id, c.id + h.k AS fence
    FROM nodes n
    JOIN claims c ON c.node_id = n.id
    CROSS JOIN LATERAL unnest(c.run_ids) WITH ORDINALITY AS h (run_id, k)
    WHERE n.id = $1 AND NOT n.dead AND n.lease_until >= clock()
)
SELECT u.place, r.cancel_code IS NOT NULL AS cancel_requested, j.state,
    CASE WHEN r.origin IN (1, 2) AND r.scheduled_for > clock() THEN r.scheduled_for - clock() END AS early_by,
    coalesce(j.version, 0) AS version, r.order_at, nextval('start_tokens') AS token
FROM unnest($2::uuid[], $3::bigint[], $4::integer[], $5::uuid[]) WITH ORDINALITY AS u (run_id, fence, turn, job_id, place)
JOIN runs r ON r.id BETWEEN u.run_id AND u.run_id AND r.turn = u.turn
LEFT JOIN jobs j ON j.id BETWEEN u.job_id AND u.job_id
WHERE ((SELECT yes FROM known) OR (u.run_id, u.fence) IN (SELECT run_id, fence FROM held)) IS TRUE
ORDER BY u.place
