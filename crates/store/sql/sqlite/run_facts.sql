-- A run that is about to start.
SELECT order_at, cancel_code IS NOT NULL FROM runs WHERE id = ?1 AND turn = ?2 AND node_id = ?3 AND fence = ?4
