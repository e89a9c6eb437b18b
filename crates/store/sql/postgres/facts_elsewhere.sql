-- Runs of jobs that other nodes hold and that are due: they may have begun, and some are known to have. A node whose
-- lease has ended runs nothing. $1 node, $2 jobs.
SELECT r.job_id, r.id, r.origin, r.order_at, c.id + h.k AS fence,
    (coalesce(r.begun = r.turn + 1, false) OR EXISTS (
        SELECT 1 FROM node_starts s CROSS JOIN LATERAL unnest(s.run_ids, s.turns) AS started (id, turn)
        WHERE s.node_id = c.node_id AND started.id = r.id AND started.turn = r.turn
    )) AS has_begun
FROM claims c
JOIN nodes n ON n.id = c.node_id AND n.lease_until >= clock()
CROSS JOIN LATERAL unnest(c.run_ids, c.turns) WITH ORDINALITY AS h (id, turn, k)
JOIN runs r ON r.id BETWEEN h.id AND h.id AND r.turn = h.turn
WHERE c.node_id <> $1 AND r.job_id = ANY ($2::uuid[]) AND r.due_at <= clock()
