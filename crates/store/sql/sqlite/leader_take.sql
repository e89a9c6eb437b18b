-- A node that plans and takes runs begins an epoch.
UPDATE roles SET epoch = epoch + 1, node_id = ?1, since = ?2
WHERE name = 'LEADER' AND EXISTS (
    SELECT 1 FROM nodes AS n WHERE n.id = ?1 AND NOT n.dead AND NOT n.draining
        AND EXISTS (SELECT 1 FROM json_each(n.roles) AS role WHERE upper(role.value) = 'SCHEDULER')
)
