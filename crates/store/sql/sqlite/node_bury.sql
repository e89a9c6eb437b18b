-- A node that leaves.
UPDATE nodes SET buried = 1 WHERE id = ?1 AND NOT buried
