-- A node that plans and takes runs begins an epoch, if no living node leads.
UPDATE roles l SET epoch = l.epoch + 1, node_id = $1, since = clock()
WHERE l.name = 'LEADER'
    AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = l.node_id AND NOT n.dead)
    AND EXISTS (
        SELECT 1 FROM nodes n WHERE n.id = $1 AND NOT n.dead AND NOT n.draining AND 'SCHEDULER' = ANY (n.roles)
    )
