-- The nodes that plan, but $1.
SELECT id FROM nodes WHERE NOT dead AND id <> $1 AND 'SCHEDULER' = ANY (roles)
