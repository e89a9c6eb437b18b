-- A scheduler has seen every run that waits for a quorum, in the present epoch. Under a share of the leadership.
INSERT INTO acknowledgements (run_id, epoch, node_id, at)
SELECT r.id, l.epoch, m.id, clock()
FROM nodes m
CROSS JOIN roles l
JOIN nodes n ON n.id = l.node_id AND NOT n.dead
CROSS JOIN runs r
WHERE m.id = $1 AND NOT m.dead AND 'SCHEDULER' = ANY (m.roles) AND l.name = 'LEADER' AND r.wait = 3
ON CONFLICT DO NOTHING
