-- Deletes rows of child runs whose parent is gone, among the oldest.
DELETE FROM parts WHERE (parent_id, number) IN (
    SELECT p.parent_id, p.number
    FROM (SELECT parent_id, number FROM parts ORDER BY parent_id, number LIMIT ?1) AS p
    WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.id = p.parent_id)
)
