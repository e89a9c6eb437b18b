-- A buried node whose last run was handed on. Without a row a node may not write either.
DELETE FROM nodes WHERE id = ?1 AND buried
