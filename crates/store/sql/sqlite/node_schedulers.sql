-- The nodes that plan: alive and not draining.
SELECT n.id FROM nodes AS n
WHERE NOT n.buried AND NOT n.draining
    AND EXISTS (SELECT 1 FROM json_each(n.roles) AS role WHERE upper(role.value) = 'SCHEDULER')
