-- A node takes nothing new.
UPDATE nodes SET retired_at = clock() WHERE id = $1 AND NOT buried AND retired_at IS NULL
