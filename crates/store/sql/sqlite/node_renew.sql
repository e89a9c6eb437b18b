-- A buried node cannot come back.
UPDATE nodes SET lease_until = ?2, renewed_at = ?3 WHERE id = ?1 AND NOT buried RETURNING draining
