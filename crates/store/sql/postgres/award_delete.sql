-- Takes something away.
DELETE FROM awards WHERE id = $1 RETURNING id
