-- A node does not count any more.
UPDATE nodes SET gone_at = ?2 WHERE id = ?1
