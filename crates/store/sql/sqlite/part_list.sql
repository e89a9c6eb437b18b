-- The parts of a run and how they ended. One that is nowhere any more was pruned, and completed ones go first.
SELECT p.run_id, p.shard, CASE WHEN r.seq IS NULL THEN 1 ELSE e.outcome END
FROM parts AS p LEFT JOIN runs AS r ON r.id = p.run_id LEFT JOIN ends AS e ON e.seq = r.seq
WHERE p.parent_id = ?1
ORDER BY p.number
