-- A run that is about to start, if it has not ended, how far the time of a tick is away (from ?3), and its job (?4), deleted
-- or not.
SELECT
    r.seq, r.order_at, r.cancel_code IS NOT NULL,
    CASE WHEN r.origin IN (1, 2) AND r.scheduled_for > ?3 THEN r.scheduled_for - ?3 END,
    j.state, j.version
FROM runs AS r LEFT JOIN jobs AS j ON j.id = ?4
WHERE r.id = ?1 AND r.turn = ?2 AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = r.seq)
