-- A setting that nobody wants any more, if it is the one that was seen.
DELETE FROM settings WHERE name = ?1 AND version = ?2
