-- Whether a node may begin anything.
SELECT 1 FROM nodes WHERE id = ?1 AND NOT buried AND lease_until >= ?2
