-- Live runs of a tenant by state. A run that waits for earlier runs of its job (1) or for a place
-- in a pool (6) is queued; one that waits for its child runs (4) is running.
SELECT
    count(*) FILTER (WHERE state = 0) AS pending,
    count(*) FILTER (WHERE state = 1) AS queued,
    count(*) FILTER (WHERE state = 2) AS running,
    min(due_at) FILTER (WHERE state = 1 AND wait = 0 AND place IS NULL) AS oldest_due
FROM (
    SELECT
        r.due_at, r.place, r.wait,
        CASE
            WHEN r.wait = 4 THEN 2
            WHEN r.wait = 5 AND r.due_at <= c.now
                THEN CASE WHEN EXISTS (SELECT 1 FROM messages m WHERE m.run_id = r.id AND m.state + 0 = 2) THEN 2 ELSE 1 END
            WHEN r.wait NOT IN (0, 1, 6, 8) OR r.due_at > c.now THEN 0
            WHEN r.wait IN (1, 6, 8) THEN 1
            WHEN ((r.id, r.turn) IN (SELECT unnest(run_ids), unnest(turns) FROM claims)) IS TRUE THEN 2
            ELSE 1
        END AS state
    FROM runs r CROSS JOIN (SELECT clock() AS now OFFSET 0) AS c
    WHERE r.tenant_id = $1
) AS r
