-- An ended run.
SELECT * FROM history WHERE id = ?1
