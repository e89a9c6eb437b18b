-- The work of one lane, longest due first.
SELECT r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.shard, r.due_at, q.lane, r.origin, r.coalesced,
    r.ignore_dependencies, r.parameters, r.attempts, r.lost, r.turn, r.seq, r.order_at, r.cancel_code IS NOT NULL
FROM queue AS q CROSS JOIN runs AS r ON r.seq = q.seq
WHERE q.tenant_id = ?1 AND q.lane = ?2 AND q.due_at > ?3 AND q.due_at <= ?4
ORDER BY q.due_at, q.seq LIMIT ?5
