-- Live runs of a job, newest first.
SELECT id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn,
    wait, node_id FROM runs WHERE job_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3
