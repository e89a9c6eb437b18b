-- Runs begin under claims that the node still holds. $1 node, $2 to $4 the claims.
WITH held AS (
    SELECT h.run_id, c.id + h.k AS fence
    FROM nodes n
    JOIN claims c ON c.node_id = n.id
    CROSS JOIN LATERAL unnest(c.run_ids) WITH ORDINALITY AS h (run_id, k)
    WHERE n.id = $1 AND NOT n.dead AND n.lease_until >= clock()
)
UPDATE runs r SET begun = r.turn + 1
FROM unnest($2::uuid[], $3::bigint[], $4::integer[]) AS u (run_id, fence, turn)
WHERE r.id BETWEEN u.run_id AND u.run_id AND r.turn = u.turn
    AND ((u.run_id, u.fence) IN (SELECT run_id, fence FROM held)) IS TRUE
RETURNING u.fence
