-- Live runs, by id ($1) or by job ($2, newest first, older than $3), with their holder and last attempt.
SELECT
    r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.shard, r.due_at, r.priority, r.origin, r.coalesced,
    r.ignore_dependencies, r.parameters, r.attempts, r.lost, r.turn,
    r.wait, clock() AS now,
    (
        SELECT c.node_id FROM claims c CROSS JOIN LATERAL unnest(c.run_ids, c.turns) AS h (id, turn)
        WHERE h.id = r.id AND h.turn = r.turn LIMIT 1
    ) AS holder,
    a.node_id, a.fence, a.started_at, a.message, a.error
FROM (
    SELECT * FROM runs WHERE id = $1
    UNION ALL
    (SELECT * FROM runs WHERE job_id BETWEEN $2 AND $2 AND id < $3 ORDER BY job_id DESC, id DESC LIMIT $4::bigint)
) AS r
LEFT JOIN LATERAL (
    SELECT * FROM attempts a WHERE a.run_id = r.id ORDER BY a.number DESC LIMIT 1
) AS a ON r.attempts + r.lost > 0
