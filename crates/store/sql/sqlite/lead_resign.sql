-- The leader of an epoch gives it up.
UPDATE roles SET node_id = NULL WHERE name = 'LEADER' AND node_id = ?1 AND epoch = ?2
