-- Goes on behind run_insert, to hand what was just recorded to the node that asked. Nobody else can claim it, so the gate
-- is passed on the way, for the numbers. A tenant that is counted gets its runs from the queue.
-- $13 lock of the node, $14 node, $15 how many at most that take a process slot, $16 that take an HTTP slot, $17 and $18 as
-- in job_changed_lately, $19 and $20 the first and the last of the runs.
RETURNING id, tenant_id, due_at, order_at, lane
),
-- Those that had ended before.
known AS MATERIALIZED (SELECT coalesce(forget_ended(array_agg(id), $19, $20), '{}') AS ids FROM born),
clock AS MATERIALIZED (SELECT clock() AS now),
due AS MATERIALIZED (
    SELECT id, due_at, order_at, lane
    FROM born
    WHERE due_at <= (SELECT now FROM clock) AND id <> ALL ((SELECT ids FROM known)::uuid[])
        AND tenant_id NOT IN (SELECT tenant_id FROM quotas WHERE max_concurrent IS NOT NULL)
        AND (SELECT lives($13, $14))
),
chosen AS MATERIALIZED (
    (SELECT id, due_at FROM due WHERE lane < 10 ORDER BY order_at LIMIT $15::bigint)
    UNION ALL
    (SELECT id, due_at FROM due WHERE lane >= 10 ORDER BY order_at LIMIT $16::bigint)
),
-- Jobs that were changed lately: who starts what it was handed forgets older versions of them.
lately AS MATERIALIZED (
    SELECT id, version FROM jobs
    WHERE updated_at > (SELECT now FROM clock) - $17::bigint AND $15::bigint + $16::bigint > 0
    ORDER BY updated_at DESC LIMIT $18::bigint
),
base AS MATERIALIZED (
    UPDATE gate SET fence = fence + $15::bigint + $16::bigint WHERE EXISTS (SELECT 1 FROM chosen)
    RETURNING fence - $15::bigint - $16::bigint AS fence
),
claim AS (
    INSERT INTO claims (id, node_id, claimed_at, run_ids, turns, due_until)
    SELECT
        (SELECT fence FROM base), $14, (SELECT now FROM clock), array_agg(id),
        array_fill(0, ARRAY[count(*)::integer]), max(due_at)
    FROM chosen
    HAVING count(*) > 0
)
SELECT
    ids AS known, ARRAY(SELECT id FROM chosen) AS claimed, (SELECT fence FROM base) AS fence,
    -- Such a run, if it guards nothing, is decided with its claim.
    ARRAY(SELECT nextval('start_tokens') FROM chosen) AS tokens,
    ARRAY(SELECT id FROM lately) AS changed, ARRAY(SELECT version FROM lately) AS versions
FROM known
