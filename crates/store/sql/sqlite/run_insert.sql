-- Runs, unless their ids are taken.
INSERT OR IGNORE INTO runs (seq, id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, lane, origin,
    coalesced, ignore_dependencies, parameters, requested_by, created_at, attempts, lost, turn, wait)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0)
