-- Continues audit_requested, and claims the runs that were just recorded for the submitting node.
-- No other node can claim them, so the gate is passed on the way, for the fences. A tenant with a
-- limit gets its runs from the queue. $18 lock of the node, $19 node, $20 how many at most that
-- take a process slot, $21 that take an HTTP slot, $22 and $23 as in job_changed_lately.
, due AS MATERIALIZED (
    SELECT id, due_at, order_at, lane
    FROM born
    WHERE due_at <= (SELECT now FROM clock) AND id <> ALL ((SELECT ids FROM known)::uuid[])
        AND tenant_id NOT IN (SELECT tenant_id FROM quotas WHERE max_concurrent IS NOT NULL)
        AND (SELECT lives($18, $19))
),
chosen AS MATERIALIZED (
    (SELECT id, due_at FROM due WHERE lane < 10 ORDER BY order_at LIMIT $20::bigint)
    UNION ALL
    (SELECT id, due_at FROM due WHERE lane >= 10 ORDER BY order_at LIMIT $21::bigint)
),
-- Jobs that were changed lately: a node that starts a claimed run drops older versions of them.
lately AS MATERIALIZED (
    SELECT id, version FROM jobs
    WHERE updated_at > (SELECT now FROM clock) - $22::bigint AND $20::bigint + $21::bigint > 0
    ORDER BY updated_at DESC LIMIT $23::bigint
),
base AS MATERIALIZED (
    UPDATE gate SET fence = fence + $20::bigint + $21::bigint WHERE EXISTS (SELECT 1 FROM chosen)
        -- The audit is written before the gate is locked.
        AND (SELECT count(*) FROM audited) >= 0
    RETURNING fence - $20::bigint - $21::bigint AS fence
),
claim AS (
    INSERT INTO claims (id, node_id, claimed_at, run_ids, turns, due_until)
    SELECT
        (SELECT fence FROM base), $19, (SELECT now FROM clock), array_agg(id),
        array_fill(0, ARRAY[count(*)::integer]), max(due_at)
    FROM chosen
    HAVING count(*) > 0
)
SELECT
    ids AS known, ARRAY(SELECT id FROM chosen) AS claimed, (SELECT fence FROM base) AS fence,
    -- Such a run, if it guards nothing, is decided with its claim.
    ARRAY(SELECT nextval('start_tokens') FROM chosen) AS tokens,
    ARRAY(SELECT id FROM lately) AS changed, ARRAY(SELECT version FROM lately) AS versions,
    -- The list of recorded runs is returned only if some were not recorded.
    CASE WHEN (SELECT count(*) FROM born) < cardinality($1) THEN ARRAY(SELECT id FROM born) END AS born
FROM known
