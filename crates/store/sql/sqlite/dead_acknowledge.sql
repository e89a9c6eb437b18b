-- Somebody saw to a dead letter.
UPDATE history SET dead_letter = 0 WHERE id = ?1 AND dead_letter = 1
