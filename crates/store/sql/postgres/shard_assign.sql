-- Shards move to other owners, if the node ($1) leads in its epoch ($2) and they were not moved since. Under the lock of the leader's row.
WITH leads AS MATERIALIZED (
    SELECT 1 AS yes FROM roles l JOIN nodes n ON n.id = l.node_id AND NOT n.dead
    WHERE l.name = 'LEADER' AND l.node_id = $1 AND l.epoch = $2::bigint
),
moved AS (
    INSERT INTO shard_owners AS o (shard_id, node_id, fence, epoch, since)
    SELECT u.shard_id, u.node_id, u.fence + 1, $2::bigint, clock()
    FROM unnest($3::uuid[], $4::bigint[], $5::uuid[]) AS u (shard_id, fence, node_id)
    CROSS JOIN leads
    WHERE EXISTS (SELECT 1 FROM objects b WHERE b.id = u.shard_id)
    ON CONFLICT (shard_id) DO UPDATE
    SET node_id = excluded.node_id, fence = excluded.fence, epoch = excluded.epoch, since = excluded.since
    WHERE o.fence = excluded.fence - 1
    RETURNING 1
)
SELECT (SELECT count(*) FROM leads) AS leads, (SELECT count(*) FROM moved) AS moved
