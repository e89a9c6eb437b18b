-- A node takes nothing new.
UPDATE nodes SET retired_at = ?2 WHERE id = ?1 AND NOT buried AND retired_at IS NULL
