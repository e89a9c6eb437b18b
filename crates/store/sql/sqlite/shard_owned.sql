-- The shards of a node.
SELECT shard_id FROM shard_owners WHERE node_id = ?1
