-- Whether a node is alive and plans.
SELECT 1 FROM nodes AS n
WHERE n.id = ?1 AND NOT n.buried AND EXISTS (SELECT 1 FROM json_each(n.roles) AS role WHERE upper(role.value) = 'SCHEDULER')
