-- A run that never was, or that nobody wants to know of any more.
DELETE FROM runs WHERE seq = ?1
