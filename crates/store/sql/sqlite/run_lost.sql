-- The end of the lease of a dead node, and whether it had begun a run.
SELECT n.lease_until, r.begun IS NOT NULL AND r.begun = r.turn + 1 FROM runs AS r CROSS JOIN nodes AS n
WHERE r.seq = ?1 AND n.id = ?2
