-- Deletes rows of child runs whose parent is gone, among the oldest.
DELETE FROM parts d USING (
    SELECT p.parent_id, p.number FROM (
        SELECT parent_id, number FROM parts ORDER BY parent_id, number LIMIT $1::bigint
    ) AS p
    WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = p.parent_id)
        AND NOT EXISTS (SELECT 1 FROM history h WHERE h.id = p.parent_id)
) AS gone
WHERE d.parent_id = gone.parent_id AND d.number = gone.number
RETURNING 1
