-- The parts of runs and how they ended. One that is nowhere any more was pruned, and completed ones go first.
SELECT p.parent_id, p.run_id, p.shard, CASE WHEN r.id IS NULL THEN coalesce(h.outcome, 1::smallint) END AS outcome
FROM parts p
LEFT JOIN runs r ON r.id = p.run_id
LEFT JOIN history h ON h.id = p.run_id AND h.outcome > 0
WHERE p.parent_id = ANY ($1::uuid[])
ORDER BY p.parent_id, p.number
