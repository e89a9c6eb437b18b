-- Whether a part of a run has not ended.
SELECT 1 FROM parts AS p CROSS JOIN runs AS r ON r.id = p.run_id
WHERE p.parent_id = ?1 AND NOT EXISTS (SELECT 1 FROM ends AS e WHERE e.seq = r.seq) LIMIT 1
