-- Ended runs in the order in which they ended, after a cursor.
SELECT e.finished_at, r.id, r.job_id, r.tenant_id, e.outcome, e.reason, r.origin, r.scheduled_for, coalesce(r.count, 1),
    r.due_at, e.started_at, e.attempts + e.lost, e.dead_letter, r.requested_by
FROM ends AS e INDEXED BY ends_finished CROSS JOIN runs AS r ON r.seq = e.seq
WHERE e.finished_at >= $1 AND (e.finished_at > $1 OR r.id > $2) AND e.finished_at < $3
ORDER BY e.finished_at, r.id LIMIT $4
