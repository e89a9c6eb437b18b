-- How much there is of what.
SELECT
    (SELECT count(*) FROM jobs WHERE state <> 'DELETED') AS jobs,
    count(*) FILTER (WHERE NOT held AND wait = 0 AND due_at <= now) AS queued,
    count(*) FILTER (WHERE held) AS held,
    count(*) FILTER (WHERE NOT held AND (wait <> 0 OR due_at > now)) AS pending,
    min(due_at) FILTER (WHERE NOT held AND wait = 0 AND place IS NULL AND due_at <= now) AS oldest_due
FROM (
    SELECT
        r.due_at, r.wait, r.place, c.now,
        ((r.id, r.turn) IN (SELECT unnest(run_ids), unnest(turns) FROM claims)) IS TRUE AS held
    FROM runs r CROSS JOIN (SELECT clock() AS now OFFSET 0) AS c
) AS r
