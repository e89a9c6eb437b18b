-- What a node offers, if it takes runs at all, and the epoch that it leads in.
SELECT n.labels, (SELECT r.epoch FROM roles AS r WHERE r.node_id = n.id)
FROM nodes AS n WHERE n.id = ?1 AND NOT n.buried AND NOT n.draining
