-- A run, unless its id is taken.
INSERT INTO runs (seq, id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, wait)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 0, 0, 0, 0)
ON CONFLICT (id) DO NOTHING
