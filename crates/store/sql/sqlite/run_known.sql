-- Whether a run has not ended yet.
SELECT 1 FROM runs WHERE id = ?1
