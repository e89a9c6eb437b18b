-- Times that ended without a run, unless there is one for the first of them.
INSERT INTO runs (seq, id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, lane, origin, coalesced,
    ignore_dependencies, attempts, lost, turn, wait, scheduled_last, count, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, '', ?6, ?6, 0, 1, 0, 0, 0, 0, 0, 0, ?7, ?8, ?9)
ON CONFLICT (id) DO NOTHING
