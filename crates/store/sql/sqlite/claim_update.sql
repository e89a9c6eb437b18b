-- Removes runs that have ended from a claim.
UPDATE claims SET grants = ?2 WHERE first = ?1
