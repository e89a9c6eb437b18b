-- The lease of a message ends later, if it is still the same one, but not after its time limit: ?6 begins one that has not
-- begun, or replaces it if ?7. ?5 is the present time.
UPDATE messages SET
    deadline = CASE WHEN ?7 THEN ?6 ELSE coalesce(deadline, ?6) END,
    at = min(?3, coalesce(CASE WHEN ?7 THEN ?6 ELSE coalesce(deadline, ?6) END, ?3)),
    progress = coalesce(?8, progress)
WHERE run_id = ?1 AND fence = ?2 AND state = 2 AND queue_id = ?4 AND (deadline IS NULL OR deadline > ?5)
RETURNING at, (SELECT r.cancel_code IS NOT NULL FROM runs AS r WHERE r.seq = messages.seq)
