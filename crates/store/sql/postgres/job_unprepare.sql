-- Deletes ticks whose time has not come and that were neither attempted nor cancelled, held or not,
-- if this transaction has written their jobs. Runs under the gate, the exclusive lock of waits, and
-- the lock of starts: a tick that a node may start has its time behind it by this clock. $1 the
-- jobs, $2 those of them whose next time goes back to the first such tick: they are planned again
-- from there on, so ticks before one that has a decision stay. The runs were locked before the
-- gate; if one was recorded since and is locked by another transaction, this one rolls back and is
-- repeated.
WITH clock AS MATERIALIZED (SELECT clock() AS now),
written AS MATERIALIZED (
    SELECT id, id = ANY ($2::uuid[]) AS returned FROM jobs
    WHERE id = ANY ($1::uuid[]) AND xmin = pg_current_xact_id()::xid
),
-- The ids of history are sorted by time, so only future ones are read.
settled AS MATERIALIZED (
    SELECT
        w.id,
        CASE WHEN w.returned THEN greatest(
            (SELECT now FROM clock),
            (
                SELECT max(r.scheduled_for) FROM runs r
                WHERE r.job_id = w.id AND r.origin IN (1, 2)
                    AND (r.attempts > 0 OR r.lost > 0 OR r.cancel_code IS NOT NULL)
            ),
            (
                SELECT max(h.scheduled_last) FROM history h
                WHERE h.job_id = w.id AND h.origin IN (1, 2) AND h.reason IS DISTINCT FROM 'DST_GAP'
                    AND h.id > (
                        lpad(to_hex((SELECT now FROM clock) / 1000), 12, '0') || '70008000000000000000'
                    )::uuid
            )
        ) ELSE (SELECT now FROM clock) END AS until
    FROM written w
),
doomed AS MATERIALIZED (
    SELECT r.id
    FROM settled s
    JOIN runs r ON r.job_id BETWEEN s.id AND s.id AND r.scheduled_for > s.until
    WHERE r.origin IN (1, 2) AND r.attempts = 0 AND r.lost = 0 AND r.cancel_code IS NULL
    FOR UPDATE OF r NOWAIT
),
gone AS (
    DELETE FROM runs r USING doomed d WHERE r.id BETWEEN d.id AND d.id
    RETURNING r.id, r.job_id, r.scheduled_for
),
-- The same tick may be planned again, with the same id and a first claim generation of its own: an
-- old claim must not be mistaken for a new one.
listed AS MATERIALIZED (
    SELECT c.id FROM claims c
    WHERE EXISTS (SELECT 1 FROM unnest(c.run_ids) AS h (id) WHERE (h.id IN (SELECT id FROM gone)) IS TRUE)
    ORDER BY c.id
    FOR UPDATE
),
forgotten AS (
    UPDATE claims c
    SET run_ids = (
        SELECT array_agg(
            CASE WHEN (h.id IN (SELECT id FROM gone)) IS TRUE THEN '00000000-0000-0000-0000-000000000000' ELSE h.id END
            ORDER BY h.k
        )
        FROM unnest(c.run_ids) WITH ORDINALITY AS h (id, k)
    ), whole = false
    FROM listed l
    WHERE c.id BETWEEN l.id AND l.id
)
UPDATE jobs j SET next_run = least(j.next_run, g.first)
FROM (SELECT job_id, min(scheduled_for) AS first FROM gone GROUP BY job_id) AS g
WHERE j.id BETWEEN g.job_id AND g.job_id AND g.job_id = ANY ($2::uuid[])
