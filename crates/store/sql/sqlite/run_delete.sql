-- A run leaves the live table.
DELETE FROM runs WHERE id = ?1
