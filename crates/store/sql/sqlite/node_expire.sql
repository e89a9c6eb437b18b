-- Nodes whose lease ran out. One whose name a living node has was started again already. A scheduler that ended with all
-- others stays until the outage is over since ?2: the process that follows it may come back with its start log.
UPDATE nodes SET dead = 1, gone_at = CASE WHEN EXISTS (
    SELECT 1 FROM nodes AS other WHERE other.name = nodes.name AND other.id <> nodes.id AND other.lease_until >= ?1
        AND NOT other.dead
) THEN ?1 END
WHERE lease_until < ?1 AND NOT dead AND NOT (
    EXISTS (SELECT 1 FROM json_each(roles) WHERE value = 'SCHEDULER')
    AND EXISTS (
        SELECT 1 FROM outages WHERE until > ?2 AND nodes.renewed_at < until AND nodes.lease_until >= since
    )
)
RETURNING id
