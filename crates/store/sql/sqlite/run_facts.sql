-- A run that is about to start, if it has not ended, and how far the time of a tick is away (from ?3).
SELECT seq, order_at, cancel_code IS NOT NULL, CASE WHEN origin IN (1, 2) AND scheduled_for > ?3 THEN scheduled_for - ?3 END
FROM runs
WHERE id = ?1 AND turn = ?2 AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = runs.seq)
