-- The process of a node has ended, and so does its lease.
UPDATE nodes SET lease_until = min(lease_until, ?2), buried = 1 WHERE id = ?1 AND NOT buried
