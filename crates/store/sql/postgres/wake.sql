-- Wakes runs that waited for these jobs after runs have ended or begun to wait. While no run begins
-- to wait, and under the gate where others depend on these jobs or runs begin to wait. $1 jobs, $2
-- how many in line go on for each, $3 all runs that may have ended, $4 those of them whose job is
-- not known, $5 runs that may wait for other jobs or in line now, $6 how many fences the gate has
-- just allocated, $7 and $8 the first and the last of $3: no other partition of history is read. $9
-- how many runs of the job of each of $5 may be under way at a time.
WITH clock AS MATERIALIZED (SELECT clock() AS now),
freed AS MATERIALIZED (
    SELECT job_id, sum(n) AS n
    FROM (
        SELECT job_id, n FROM unnest($1::uuid[], $2::integer[]) AS u (job_id, n)
        UNION ALL
        SELECT job_id, 1 FROM history WHERE id = ANY ($4::uuid[]) AND id BETWEEN $7 AND $8 AND outcome > 0
    ) AS u
    GROUP BY job_id
),
-- The next in line of the same job, one for each run that ended, and the next of its backfill (8).
-- Other transactions may wake runs of the same jobs at this moment: all lock them in one order, and
-- the second takes those behind. A run that begins to wait wakes only those behind it.
in_line AS (
    SELECT w.id
    FROM (SELECT job_id, n FROM freed ORDER BY job_id) AS f
    CROSS JOIN (VALUES (1), (8)) AS k (wait)
    CROSS JOIN LATERAL (
        SELECT w.id FROM runs w
        WHERE w.job_id = f.job_id AND w.wait = k.wait AND w.wait <> 0
        ORDER BY w.order_at, w.id LIMIT f.n
        FOR NO KEY UPDATE
    ) AS w
    UNION
    SELECT w.id
    FROM runs a
    CROSS JOIN LATERAL (
        SELECT w.id FROM runs w
        WHERE w.job_id = a.job_id AND w.wait = 1 AND (w.order_at, w.id) > (a.order_at, a.id)
        ORDER BY w.order_at, w.id LIMIT 1
    ) AS w
    WHERE a.id = ANY ($5::uuid[]) AND a.wait + 0 IN (2, 8)
    UNION
    -- A run begins to wait in line although fewer are at work than may be: each end wakes one run, so a place that stays
    -- free now would stay free. A run that waits for a decision (7) may be at work.
    SELECT w.id
    FROM unnest($5::uuid[], $9::bigint[]) AS u (id, places)
    JOIN runs a ON a.id BETWEEN u.id AND u.id AND a.wait + 0 IN (1, 8)
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT 1 FROM runs e
            WHERE e.job_id = a.job_id AND e.order_at <= (SELECT now FROM clock) AND e.id <> a.id AND e.wait + 0 IN (0, 4, 6, 7)
                AND e.origin NOT IN (6, 8) AND (a.wait = 1 OR e.origin = 4)
            LIMIT u.places
        ) AS e
    ) AS busy
    CROSS JOIN LATERAL (
        SELECT w.id FROM runs w
        WHERE w.job_id = a.job_id AND w.wait = a.wait AND w.wait <> 0
        ORDER BY w.order_at, w.id LIMIT greatest(u.places - busy.n, 0)
    ) AS w
),
overlap AS (
    UPDATE runs r SET wait = 0, wait_until = NULL
    FROM in_line i
    WHERE r.id BETWEEN i.id AND i.id
    RETURNING r.id
),
dependent AS MATERIALIZED (
    SELECT d.job_id, d.depends_on FROM freed f
    CROSS JOIN LATERAL (SELECT job_id, depends_on FROM upstream WHERE depends_on = f.job_id OFFSET 0) AS d
),
ended AS MATERIALIZED (
    SELECT h.job_id, h.outcome, h.finished_at
    FROM history h
    WHERE EXISTS (SELECT 1 FROM dependent)
        AND h.id = ANY ($3::uuid[]) AND h.id BETWEEN $7 AND $8 AND h.outcome <= 4
        AND (h.job_id IN (SELECT depends_on FROM dependent)) IS TRUE
),
record AS (
    INSERT INTO last_ends AS l (job_id, outcome, finished_at, succeeded_at, fence)
    SELECT DISTINCT ON (job_id)
        job_id, outcome, finished_at, max(finished_at) FILTER (WHERE outcome = 1) OVER (PARTITION BY job_id),
        (SELECT fence FROM gate) - $6::bigint
    FROM ended
    ORDER BY job_id, finished_at DESC
    ON CONFLICT (job_id) DO UPDATE SET
        outcome = CASE WHEN l.finished_at > excluded.finished_at THEN l.outcome ELSE excluded.outcome END,
        finished_at = greatest(l.finished_at, excluded.finished_at),
        succeeded_at = greatest(l.succeeded_at, excluded.succeeded_at),
        fence = excluded.fence
),
next AS MATERIALIZED (
    SELECT DISTINCT d.job_id FROM dependent d WHERE (d.depends_on IN (SELECT job_id FROM ended)) IS TRUE
),
-- They stood aside meanwhile and get in line anew: runs that have begun since are before them.
upstream AS (
    UPDATE runs r SET wait = 0, wait_until = NULL, order_at = greatest(r.order_at, (SELECT now FROM clock))
    FROM next n
    CROSS JOIN LATERAL (SELECT w.id FROM runs w WHERE w.job_id = n.job_id AND w.wait = 2 OFFSET 0) AS w
    WHERE r.id BETWEEN w.id AND w.id
    RETURNING r.id
),
due AS MATERIALIZED (
    SELECT j.id
    FROM next n
    JOIN jobs j ON j.id BETWEEN n.job_id AND n.job_id
    WHERE j.after_dependencies AND j.state || '' = 'ENABLED' AND j.next_run IS NULL
    ORDER BY j.id
    FOR NO KEY UPDATE OF j
),
planned AS (
    UPDATE jobs j SET next_run = (SELECT now FROM clock) FROM due d WHERE j.id BETWEEN d.id AND d.id
    RETURNING j.id
)
SELECT
    ARRAY(SELECT id FROM overlap UNION ALL SELECT id FROM upstream) AS woken, EXISTS (SELECT 1 FROM planned) AS planned
