-- Nodes that have been gone for long.
DELETE FROM nodes WHERE gone_at < ?1 AND cleared
