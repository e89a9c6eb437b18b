-- Ticks that are not due and were never tried vanish, held or not, if this very transaction has
-- written their jobs. Under the gate. $1 the jobs, $2 those of them whose next time goes back to the first such tick.
WITH clock AS MATERIALIZED (SELECT clock() AS now),
gone AS (
    DELETE FROM runs
    WHERE job_id = ANY (ARRAY(
            SELECT id FROM jobs WHERE id = ANY ($1::uuid[]) AND xmin = pg_current_xact_id()::xid
        ))
        AND order_at > (SELECT now FROM clock) AND due_at > (SELECT now FROM clock)
        AND origin IN (1, 2) AND attempts = 0 AND lost = 0
    RETURNING id, job_id, scheduled_for
),
-- The same tick may be planned again, with the same id and a first turn of its own: an old grant
-- must not be mistaken for a new one.
forgotten AS (
    UPDATE claims c
    SET run_ids = (
        SELECT array_agg(
            CASE WHEN (h.id IN (SELECT id FROM gone)) IS TRUE THEN '00000000-0000-0000-0000-000000000000' ELSE h.id END
            ORDER BY h.k
        )
        FROM unnest(c.run_ids) WITH ORDINALITY AS h (id, k)
    )
    WHERE EXISTS (SELECT 1 FROM unnest(c.run_ids) AS h (id) WHERE (h.id IN (SELECT id FROM gone)) IS TRUE)
)
UPDATE jobs j SET next_run = least(j.next_run, g.first)
FROM (SELECT job_id, min(scheduled_for) AS first FROM gone GROUP BY job_id) AS g
WHERE j.id = g.job_id AND j.id = ANY ($2::uuid[])
