-- A shard moves to another owner, if it was not moved since.
INSERT INTO shard_owners (shard_id, node_id, fence, epoch, since)
SELECT ?1, ?2, ?3 + 1, ?4, ?5 WHERE EXISTS (SELECT 1 FROM objects WHERE id = ?1)
ON CONFLICT (shard_id) DO UPDATE
SET node_id = excluded.node_id, fence = excluded.fence, epoch = excluded.epoch, since = excluded.since
WHERE fence = excluded.fence - 1
