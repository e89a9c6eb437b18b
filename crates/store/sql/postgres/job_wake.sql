-- Wakes runs that wait by an old definition, if this transaction has written their jobs: all that
-- wait for other jobs, a quorum, a place in a pool, their backfill or the end of a pause, and as
-- many of the line as the job lets run now. Runs under the gate. $1 the jobs, $2 how many of their
-- lines; all if absent.
WITH changed AS MATERIALIZED (
    SELECT j.id, u.line
    FROM unnest($1::uuid[], $2::integer[]) AS u (id, line)
    JOIN jobs j ON j.id BETWEEN u.id AND u.id AND j.xmin = pg_current_xact_id()::xid
),
-- A holder that read its facts before this change is woken again when it begins to wait.
noted AS (
    UPDATE jobs j SET changed_fence = (SELECT fence FROM gate) FROM changed c WHERE j.id BETWEEN c.id AND c.id
),
woken AS (
    SELECT w.id
    FROM changed c
    CROSS JOIN LATERAL (
        SELECT w.id FROM runs w
        WHERE w.job_id = c.id AND w.wait = 1
        ORDER BY w.order_at, w.id LIMIT c.line
    ) AS w
    UNION
    SELECT w.id
    FROM changed c
    CROSS JOIN LATERAL (SELECT w.id FROM runs w WHERE w.job_id = c.id AND w.wait IN (2, 3, 6, 8, 9) OFFSET 0) AS w
)
-- Those that stood aside for other jobs get in line anew.
UPDATE runs r
SET wait = 0, wait_until = NULL, order_at = CASE r.wait WHEN 2 THEN greatest(r.order_at, clock()) ELSE r.order_at END
FROM woken w
WHERE r.id BETWEEN w.id AND w.id
