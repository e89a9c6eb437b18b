-- Whether a row has its number.
SELECT EXISTS (SELECT 1 FROM audit WHERE place = ?1 AND number IS NOT NULL)
