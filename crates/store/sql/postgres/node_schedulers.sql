-- The nodes that plan: alive and not draining.
SELECT n.id FROM nodes n WHERE NOT n.buried AND NOT n.draining AND 'SCHEDULER' = ANY (n.roles)
