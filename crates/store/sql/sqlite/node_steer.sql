-- A node takes nothing new, or does again.
UPDATE nodes SET draining = ?2 WHERE id = ?1
