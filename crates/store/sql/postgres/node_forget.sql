-- Nodes that have been gone for long.
DELETE FROM nodes WHERE gone_at < clock() - $1::bigint AND cleared
