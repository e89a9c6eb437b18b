-- Buried nodes that may still hold runs.
SELECT id FROM nodes WHERE buried AND NOT cleared
