-- An object that nobody wants any more, if it is the one that was seen.
DELETE FROM objects WHERE id = ?1 AND tenant_id = ?2 AND version = ?3
