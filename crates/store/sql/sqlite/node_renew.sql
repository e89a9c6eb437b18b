-- A buried node cannot come back.
UPDATE nodes SET lease_until = ?2 WHERE id = ?1 AND NOT buried
