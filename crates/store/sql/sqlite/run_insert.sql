-- A run, unless its id is taken.
INSERT OR IGNORE INTO runs (id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, wait, node_id, fence)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10, ?11, ?12, 0, 0, 0, 0, ?13, ?14)
