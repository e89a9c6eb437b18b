-- Nodes whose lease ran out. One whose name a living node has was started again already.
UPDATE nodes SET buried = 1, gone_at = CASE WHEN EXISTS (
    SELECT 1 FROM nodes AS other WHERE other.name = nodes.name AND other.id <> nodes.id AND other.lease_until >= ?1
        AND NOT other.buried
) THEN ?1 END
WHERE lease_until < ?1 AND NOT buried RETURNING id
