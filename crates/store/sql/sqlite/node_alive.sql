-- Whether a node may write.
SELECT 1 FROM nodes WHERE id = ?1 AND NOT buried
