-- Runs are a node's now.
INSERT INTO claims (first, node_id, grants) VALUES (?1, ?2, ?3)
