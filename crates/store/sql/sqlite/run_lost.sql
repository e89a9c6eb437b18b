-- What a buried node held.
SELECT id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn,
    fence
FROM runs WHERE node_id = ?1 LIMIT ?2
