-- What an ended run was divided into, as far as it is there.
SELECT r.seq, r.id FROM parts AS p CROSS JOIN runs AS r ON r.id = p.run_id
WHERE p.parent_id = ?1 LIMIT ?2
