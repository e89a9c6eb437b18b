-- Live runs of a tenant by state. A run that is neither queued nor waiting is held by a node. One
-- that waits for earlier runs of its job (1) or for a place in a pool (6) is queued; one that waits
-- for its child runs (4) is running. $2 lanes of runs that any node may execute. A message that no
-- worker has leased is queued.
SELECT
    count(*) FILTER (WHERE r.wait NOT IN (0, 1, 4, 6, 8) OR (r.wait <> 4 AND r.due_at > {now})),
    count(*) FILTER (WHERE (q.seq IS NOT NULL OR r.wait IN (1, 6, 8) OR m.state <> 2) AND r.due_at <= {now}),
    count(*) FILTER (
        WHERE r.wait = 4 OR (q.seq IS NULL AND r.wait = 0 AND r.due_at <= {now} AND coalesce(m.state, 2) = 2)
    ),
    min(r.due_at) FILTER (WHERE q.lane < $2 AND r.due_at <= {now})
FROM live AS l CROSS JOIN runs AS r ON r.seq = l.seq
LEFT JOIN queue AS q ON q.tenant_id = r.tenant_id AND q.lane = r.lane AND q.due_at = r.due_at AND q.seq = r.seq
LEFT JOIN messages AS m ON m.seq = r.seq
WHERE r.tenant_id = $1
