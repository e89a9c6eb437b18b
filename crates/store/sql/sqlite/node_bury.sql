-- A node that leaves was alive until now.
UPDATE nodes SET buried = 1, gone_at = ?2, renewed_at = ?2 WHERE id = ?1 AND NOT buried
