-- Ticks whose time has not come (?2) and that were neither tried nor cancelled, held or not, after the given one (?3).
SELECT r.seq, r.id, r.scheduled_for, r.order_at, r.tenant_id, r.lane, r.due_at
FROM live AS l CROSS JOIN runs AS r ON r.seq = l.seq
WHERE l.job_id = ?1 AND r.scheduled_for > max(?2, ?3) AND r.origin IN (1, 2)
    AND r.attempts = 0 AND r.lost = 0 AND r.cancel_code IS NULL
