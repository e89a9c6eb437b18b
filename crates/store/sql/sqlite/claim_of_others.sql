-- What other nodes than ?1 hold whose leases have not ended at ?2: the others run nothing.
SELECT c.first, c.node_id, c.grants FROM claims AS c JOIN nodes AS n ON n.id = c.node_id
WHERE c.node_id <> ?1 AND n.lease_until >= ?2
