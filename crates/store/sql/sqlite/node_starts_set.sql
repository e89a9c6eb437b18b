-- What a node executes and since when. A buried node has nothing to say.
INSERT INTO node_starts (node_id, starts)
SELECT id, ?2 FROM nodes WHERE id = ?1 AND NOT buried
ON CONFLICT (node_id) DO UPDATE SET starts = excluded.starts
