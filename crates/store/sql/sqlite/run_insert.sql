-- A run, unless its id is taken. What is due already takes its turn by when it came, not by a time in the
-- past: a run that has begun meanwhile was not preceded by it.
INSERT INTO runs (id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, wait, node_id, fence)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, max(?7, ?8), ?9, ?10, ?11, ?12, ?13, 0, 0, 0, 0, ?14, ?15)
ON CONFLICT (id) DO NOTHING
