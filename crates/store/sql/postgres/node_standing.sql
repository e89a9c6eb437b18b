-- How a node that is not gone stands to the cluster.
SELECT buried, name FROM nodes WHERE id = $1 AND gone_at IS NULL
