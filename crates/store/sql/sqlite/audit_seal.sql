-- The number and the hash of a row.
UPDATE audit SET number = ?2, hash = ?3 WHERE place = ?1 AND number IS NULL AND tenant_id = ?4
