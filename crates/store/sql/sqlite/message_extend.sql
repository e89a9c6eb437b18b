-- The lease of a message ends later, if it is still the same one.
UPDATE messages SET at = ?3 WHERE run_id = ?1 AND fence = ?2 AND state = 2 AND queue_id = ?4
RETURNING (SELECT r.cancel_code IS NOT NULL FROM runs AS r WHERE r.seq = messages.seq)
