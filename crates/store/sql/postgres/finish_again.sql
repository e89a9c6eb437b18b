-- Ends claims of runs that go on: due again, waiting, or as they were. Runs under the gate. $1 is
-- the holder; without one, the claims are those of dead nodes. $15 are the rows of claims to read,
-- if known. The time of a decision (7) counts from now on. A column that has no value at all may be
-- left empty: unnest fills it up.
WITH clock AS MATERIALIZED (SELECT clock() AS now),
held AS (
    SELECT h.run_id, c.id + h.k AS fence
    FROM nodes n
    JOIN claims c ON c.node_id = n.id
    CROSS JOIN LATERAL unnest(c.run_ids) WITH ORDINALITY AS h (run_id, k)
    WHERE CASE WHEN $1::uuid IS NULL THEN n.dead ELSE n.id = $1 AND NOT n.dead END
        AND ($15::bigint[] IS NULL OR c.id = ANY ($15))
),
again AS (
    UPDATE runs r
    SET
        turn = r.turn + 1,
        due_at = coalesce((SELECT now FROM clock) + u.delay, r.due_at),
        attempts = r.attempts + CASE WHEN u.delay IS NOT NULL AND u.attempt_end <> 5 THEN 1 ELSE 0 END,
        lost = r.lost + CASE WHEN (u.delay IS NOT NULL OR u.wait = 7) AND u.attempt_end = 5 THEN 1 ELSE 0 END,
        -- The awaited event may have happened since the node decided to wait.
        wait = CASE
            -- A cancelled parent run has cancelled its child runs as well.
            WHEN u.wait = 4 AND (
                EXISTS (SELECT 1 FROM parts p JOIN runs c ON c.id = p.run_id WHERE p.parent_id = r.id)
                OR EXISTS (SELECT 1 FROM dag_runs d WHERE d.run_id = r.id AND NOT d.is_over)
            ) THEN 4
            WHEN r.cancel_code IS NOT NULL THEN 0
            -- A user decides, whatever the job has become.
            WHEN u.wait = 7 THEN 7
            WHEN EXISTS (SELECT 1 FROM jobs j WHERE j.id = r.job_id AND j.changed_fence >= u.fence) THEN 0
            -- If nothing of its job is at work any more, the first in line is woken behind this.
            WHEN u.wait IN (1, 8) THEN u.wait
            WHEN u.wait = 2 AND NOT EXISTS (
                SELECT 1 FROM upstream d
                WHERE d.job_id = r.job_id
                    AND (SELECT l.fence FROM last_ends l WHERE l.job_id = d.depends_on) >= u.fence
            ) THEN 2
            -- An acknowledgement passes the gate too, and finds it waiting.
            WHEN u.wait = 3 THEN 3
            -- The holder looks for free places afterwards, and so does every reaper.
            WHEN u.wait = 6 THEN 6
            -- The end of the pause is a change of the job.
            WHEN u.wait = 9 THEN 9
            ELSE 0
        END,
        wait_until = CASE u.wait WHEN 7 THEN (SELECT now FROM clock) + u.wait_until ELSE u.wait_until END
    FROM unnest(
        $2::uuid[], $3::bigint[], $4::integer[], $5::bigint[], $6::smallint[], $7::bigint[],
        $8::integer[], $9::smallint[], $10::uuid[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $16::text[],
        $17::bigint[]
    ) AS u (
        run_id, fence, turn, delay, wait, wait_until,
        number, attempt_end, node_id, started_at, finished_at, message, error, details, mark
    )
    WHERE r.id BETWEEN u.run_id AND u.run_id AND r.turn = u.turn
        AND ((u.run_id, u.fence) IN (SELECT run_id, fence FROM held)) IS TRUE
    RETURNING
        r.id, u.fence, u.delay, u.wait = 7 AS is_held, u.number, u.attempt_end, coalesce(u.node_id, $1) AS node_id, u.started_at, u.finished_at, u.message, u.error,
        u.details, coalesce(u.mark, -u.fence) AS mark
),
attempt AS (
    INSERT INTO attempts (run_id, number, fence, node_id, started_at, finished_at, attempt_end, message, error, details)
    SELECT id, number, mark, node_id, started_at, finished_at, attempt_end, message, error, details
    FROM again
    WHERE (delay IS NOT NULL OR is_held) AND number IS NOT NULL
    ON CONFLICT (run_id, number) DO NOTHING
)
SELECT fence FROM again
