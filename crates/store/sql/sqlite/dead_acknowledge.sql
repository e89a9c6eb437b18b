-- Somebody saw to a dead letter.
UPDATE ends SET dead_letter = 0 WHERE seq = (SELECT seq FROM runs WHERE id = ?1) AND dead_letter = 1
