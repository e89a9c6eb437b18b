-- A run that a node holds.
SELECT id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, lane, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn
FROM runs WHERE seq = ?1
