-- A node that leaves.
UPDATE nodes SET buried = 1, gone_at = ?2 WHERE id = ?1 AND NOT buried
