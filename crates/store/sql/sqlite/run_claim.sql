-- The run is this node's now.
UPDATE runs SET node_id = ?2, fence = ?3 WHERE id = ?1
