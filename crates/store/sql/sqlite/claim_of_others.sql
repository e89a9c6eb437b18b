-- Claims of nodes other than ?1 whose leases are valid at ?2; nodes without a lease run nothing.
SELECT c.first, c.node_id, c.grants FROM claims AS c JOIN nodes AS n ON n.id = c.node_id
WHERE c.node_id <> ?1 AND n.lease_until >= ?2
