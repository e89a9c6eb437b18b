-- Messages about which something has to be decided, at most $1 of each kind: those whose leases ended (0), or whose
-- time limits did (3), those that no worker has leased in time (1), and those whose queues were deleted (2). From one queue to the next by the index.
WITH RECURSIVE queues AS (
    (SELECT job_id FROM runs WHERE wait <> 0 ORDER BY job_id LIMIT 1)
    UNION ALL
    SELECT n.job_id FROM queues q CROSS JOIN LATERAL (
        SELECT r.job_id FROM runs r WHERE r.wait <> 0 AND r.job_id > q.job_id ORDER BY r.job_id LIMIT 1
    ) AS n
)
SELECT m.kind, m.run_id, m.queue_id, m.fence, r.attempts + r.lost AS attempts
FROM (
    (
        SELECT CASE WHEN deadline <= clock() THEN 3 ELSE 0 END::smallint AS kind, run_id, queue_id, fence FROM messages
        WHERE state = 2 AND at <= clock() ORDER BY at LIMIT $1::bigint
    )
    UNION ALL
    (
        SELECT 1::smallint, run_id, queue_id, NULL FROM messages
        WHERE expires_at IS NOT NULL AND expires_at <= clock() AND state <> 2 ORDER BY expires_at LIMIT $1::bigint
    )
    UNION ALL
    SELECT 2::smallint, m.run_id, m.queue_id, NULL
    FROM queues q
    CROSS JOIN LATERAL (
        SELECT m.run_id, m.queue_id FROM runs r JOIN messages m ON m.run_id BETWEEN r.id AND r.id AND m.state <> 2
        WHERE r.job_id = q.job_id AND r.wait + 0 = 5 LIMIT $1::bigint
    ) AS m
    WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = q.job_id AND j.state || '' <> 'DELETED')
) AS m
JOIN runs r ON r.id BETWEEN m.run_id AND m.run_id
