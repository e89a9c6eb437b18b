-- A run. A message that workers have is in no queue. One that goes on, or that ended without another attempt, shows the last attempt before.
SELECT r.seq, r.id, r.job_id, r.tenant_id, coalesce(e.job_version, r.job_version) AS job_version, r.scheduled_for,
    coalesce(r.scheduled_last, r.scheduled_for) AS scheduled_last, coalesce(r.count, 1) AS count,
    r.due_at, r.origin, r.coalesced, r.shard, r.parameters, r.turn, r.wait, q.seq IS NOT NULL OR (r.origin = 7 AND m.seq IS NULL) AS queued,
    e.outcome, e.reason, e.reason_text, coalesce(e.dead_letter, 0) AS dead_letter, coalesce(e.attempts, r.attempts) AS attempts,
    coalesce(e.lost, r.lost) AS lost, e.finished_at, e.result, e.rows_affected,
    coalesce(e.node_id, a.node_id) AS node_id, CASE WHEN e.number IS NULL THEN a.fence ELSE e.fence END AS fence,
    coalesce(e.started_at, a.started_at) AS started_at,
    CASE WHEN e.number IS NULL THEN a.message ELSE e.message END AS message,
    CASE WHEN e.number IS NULL THEN a.error ELSE e.error END AS error, r.requested_by, r.created_at,
    m.node_id AS lease_node, m.leased_at
FROM runs AS r
LEFT JOIN ends AS e ON e.seq = r.seq
LEFT JOIN queue AS q ON e.seq IS NULL
    AND q.tenant_id = r.tenant_id AND q.lane = r.lane AND q.due_at = r.due_at AND q.seq = r.seq
LEFT JOIN attempts AS a
    ON e.number IS NULL AND a.run_id = r.id AND a.number = (SELECT max(number) FROM attempts WHERE run_id = r.id)
LEFT JOIN messages AS m ON e.seq IS NULL AND m.seq = r.seq AND m.state = 2
WHERE r.id = ?1
