-- A live run, with the last of its attempts that ended.
SELECT r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.shard, r.due_at, r.priority, r.origin, r.coalesced,
    r.ignore_dependencies, r.parameters, r.attempts, r.lost, r.turn,
    r.wait, r.node_id, a.node_id, a.fence, a.started_at, a.message, a.error
FROM runs AS r LEFT JOIN attempts AS a ON a.run_id = r.id AND a.number = (SELECT max(number) FROM attempts WHERE run_id = r.id)
WHERE r.id = ?1
