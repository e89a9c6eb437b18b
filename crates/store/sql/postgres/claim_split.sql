-- A claim for each run that is left of thin ones. Under the gate.
WITH thin AS (
    DELETE FROM claims WHERE id = ANY ($1::bigint[])
    RETURNING id, node_id, claimed_at, run_ids, turns
)
INSERT INTO claims (id, node_id, claimed_at, run_ids, turns)
SELECT t.id + h.k - 1, t.node_id, t.claimed_at, ARRAY[r.id], ARRAY[r.turn]
FROM thin t
CROSS JOIN LATERAL unnest(t.run_ids, t.turns) WITH ORDINALITY AS h (run_id, turn, k)
JOIN runs r ON r.id BETWEEN h.run_id AND h.run_id AND r.turn = h.turn
RETURNING id + 1 AS fence
