-- An end that nobody wants to know of any more.
DELETE FROM ends WHERE seq = ?1
