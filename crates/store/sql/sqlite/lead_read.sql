-- The epoch, and who leads in it, if that node lives.
SELECT r.epoch, n.id FROM roles AS r LEFT JOIN nodes AS n ON n.id = r.node_id AND NOT n.buried WHERE r.name = 'LEADER'
