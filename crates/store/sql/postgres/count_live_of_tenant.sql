-- What a tenant's live runs are doing.
SELECT
    count(*) FILTER (WHERE NOT due) AS pending,
    count(*) FILTER (WHERE due AND NOT held) AS queued,
    count(*) FILTER (WHERE due AND held) AS running,
    min(due_at) FILTER (WHERE due AND NOT held) AS oldest_due
FROM (
    SELECT
        r.due_at, r.wait = 0 AND r.due_at <= c.now AS due,
        ((r.id, r.turn) IN (SELECT unnest(run_ids), unnest(turns) FROM claims)) IS TRUE AS held
    FROM runs r CROSS JOIN (SELECT clock() AS now OFFSET 0) AS c
    WHERE r.tenant_id = $1
) AS r
