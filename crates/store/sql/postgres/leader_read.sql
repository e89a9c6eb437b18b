-- The epoch, and who leads in it, if that node lives.
SELECT l.epoch, n.id FROM roles l LEFT JOIN nodes n ON n.id = l.node_id AND NOT n.dead WHERE l.name = 'LEADER'
