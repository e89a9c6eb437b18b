-- Claims whose reply was lost on the way. Under the gate.
WITH orphan AS (
    DELETE FROM claims WHERE node_id = $1 AND id = ANY ($2::bigint[])
    RETURNING run_ids, turns
)
UPDATE runs r SET turn = r.turn + 1
FROM orphan o CROSS JOIN LATERAL unnest(o.run_ids, o.turns) AS h (id, turn)
WHERE r.id BETWEEN h.id AND h.id AND r.turn = h.turn
