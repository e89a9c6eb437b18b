-- Which run has an id.
SELECT seq FROM runs WHERE id = ?1
