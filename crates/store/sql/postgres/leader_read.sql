-- The epoch, and the leader of it, if that node is alive.
SELECT l.epoch, n.id FROM roles l LEFT JOIN nodes n ON n.id = l.node_id AND NOT n.dead WHERE l.name = 'LEADER'
