-- A run that is about to start, if it has not ended.
SELECT seq, order_at, cancel_code IS NOT NULL FROM runs
WHERE id = ?1 AND turn = ?2 AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = runs.seq)
