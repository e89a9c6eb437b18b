-- A lease that has ended is not extended.
UPDATE nodes SET lease_until = ?2, renewed_at = ?3 WHERE id = ?1 AND NOT buried AND lease_until >= ?3 RETURNING draining
