-- A shard that is no more has no owner.
DELETE FROM shard_owners WHERE shard_id = ?1
