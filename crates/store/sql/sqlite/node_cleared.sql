-- A dead node whose last run was settled.
UPDATE nodes SET cleared = 1 WHERE id = ?1 AND dead
