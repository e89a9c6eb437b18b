-- What a tenant's live runs are doing. A run that waits for its parts (4) is running.
SELECT
    count(*) FILTER (WHERE state = 0) AS pending,
    count(*) FILTER (WHERE state = 1) AS queued,
    count(*) FILTER (WHERE state = 2) AS running,
    min(due_at) FILTER (WHERE state = 1 AND place IS NULL) AS oldest_due
FROM (
    SELECT
        r.due_at, r.place,
        CASE
            WHEN r.wait = 4 THEN 2
            WHEN r.wait <> 0 OR r.due_at > c.now THEN 0
            WHEN ((r.id, r.turn) IN (SELECT unnest(run_ids), unnest(turns) FROM claims)) IS TRUE THEN 2
            ELSE 1
        END AS state
    FROM runs r CROSS JOIN (SELECT clock() AS now OFFSET 0) AS c
    WHERE r.tenant_id = $1
) AS r
