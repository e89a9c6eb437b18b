-- Claims runs of steps ($1) that this transaction has recorded for the node that decided, as submit
-- does: no other node can claim them, so the gate is passed at the end, for the fences. A tenant
-- with a limit gets its runs from the queue. $2 lock of the node, $3 node, $4 how many at most that
-- take a process slot, $5 that take an HTTP slot, $6 and $7 as in job_changed_lately.
WITH clock AS MATERIALIZED (SELECT clock() AS now),
due AS MATERIALIZED (
    SELECT r.id, r.due_at, r.lane, u.place
    FROM unnest($1::uuid[]) WITH ORDINALITY AS u (id, place)
    JOIN runs r ON r.id = u.id AND r.xmin = pg_current_xact_id()::xid
    WHERE r.place IS NULL AND r.wait = 0 AND r.due_at <= (SELECT now FROM clock)
        AND r.tenant_id NOT IN (SELECT tenant_id FROM quotas WHERE max_concurrent IS NOT NULL)
        AND (SELECT lives($2, $3))
),
chosen AS MATERIALIZED (
    (SELECT id, due_at FROM due WHERE lane < 10 ORDER BY place LIMIT $4::bigint)
    UNION ALL
    (SELECT id, due_at FROM due WHERE lane >= 10 ORDER BY place LIMIT $5::bigint)
),
-- Jobs that were changed lately: the node drops older versions of them.
lately AS MATERIALIZED (
    SELECT id, version FROM jobs
    WHERE updated_at > (SELECT now FROM clock) - $6::bigint
    ORDER BY updated_at DESC LIMIT $7::bigint
),
base AS MATERIALIZED (
    UPDATE gate SET fence = fence + $4::bigint + $5::bigint WHERE EXISTS (SELECT 1 FROM chosen)
    RETURNING fence - $4::bigint - $5::bigint AS fence
),
claim AS (
    INSERT INTO claims (id, node_id, claimed_at, run_ids, turns, due_until)
    SELECT
        (SELECT fence FROM base), $3, (SELECT now FROM clock), array_agg(id),
        array_fill(0, ARRAY[count(*)::integer]), max(due_at)
    FROM chosen
    HAVING count(*) > 0
)
SELECT
    ARRAY(SELECT id FROM chosen) AS claimed, (SELECT fence FROM base) AS fence,
    ARRAY(SELECT nextval('start_tokens') FROM chosen) AS tokens,
    ARRAY(SELECT id FROM lately) AS changed, ARRAY(SELECT version FROM lately) AS versions
