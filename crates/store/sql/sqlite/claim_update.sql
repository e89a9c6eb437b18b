-- A claim without the grants that are over.
UPDATE claims SET grants = ?2 WHERE first = ?1
