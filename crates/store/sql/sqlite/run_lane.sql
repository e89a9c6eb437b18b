-- The work of one lane, longest due first.
SELECT id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn
FROM runs INDEXED BY runs_lane
WHERE tenant_id = ?1 AND priority = ?2 AND node_id IS NULL AND wait = 0 AND due_at > ?3 AND due_at <= ?4
ORDER BY due_at LIMIT ?5
