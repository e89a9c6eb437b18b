-- Live runs by id, with their holder and last attempt.
SELECT
    r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.shard, r.due_at, r.lane, r.origin, r.coalesced,
    r.ignore_dependencies, r.parameters, r.attempts, r.lost, r.turn,
    r.wait, clock() AS now, coalesce(held.node_id, m.node_id) AS holder,
    a.node_id, a.fence, a.started_at, a.message, a.error, coalesce(s.started_at, m.leased_at) AS running_since,
    r.requested_by, r.created_at, EXISTS (SELECT 1 FROM effects e WHERE e.run_id = r.id) AS exactly_once
FROM runs r
LEFT JOIN (
    SELECT c.node_id, h.id, h.turn FROM claims c CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
    WHERE h.id = ANY ($1::uuid[])
) AS held ON held.id = r.id AND held.turn = r.turn
LEFT JOIN (
    SELECT h.id, h.turn, h.started_at
    FROM node_starts n CROSS JOIN LATERAL unnest(n.run_ids, n.turns, n.started_at) AS h (id, turn, started_at)
    WHERE h.id = ANY ($1::uuid[])
) AS s ON s.id = r.id AND s.turn = r.turn
LEFT JOIN messages m ON r.wait = 5 AND m.run_id = r.id AND m.state + 0 = 2
LEFT JOIN LATERAL (
    SELECT * FROM attempts a WHERE a.run_id = r.id ORDER BY a.number DESC LIMIT 1
) AS a ON r.attempts + r.lost > 0
WHERE r.id = ANY ($1::uuid[])
