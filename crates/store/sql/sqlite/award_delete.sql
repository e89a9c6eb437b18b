-- Takes something away.
DELETE FROM awards WHERE id = ?1
