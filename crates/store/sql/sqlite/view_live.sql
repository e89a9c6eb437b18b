-- A live run.
SELECT id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn,
    wait, node_id FROM runs WHERE id = ?1
