-- What other nodes hold.
SELECT first, node_id, grants FROM claims WHERE node_id <> ?1
