-- Hands runs that this very transaction has recorded to the node that asked. Nobody else can claim them, so the gate is
-- passed on the way, for the numbers.
-- A tenant that is counted gets its runs from the queue. $1 node, $2 how many at most, $3 the runs in the order of the asking.
WITH clock AS MATERIALIZED (SELECT clock() AS now),
counted AS MATERIALIZED (SELECT tenant_id FROM quotas WHERE max_concurrent IS NOT NULL),
chosen AS MATERIALIZED (
    SELECT c.id, row_number() OVER () AS k
    FROM (
        SELECT r.id
        FROM unnest($3::uuid[]) WITH ORDINALITY AS u (id, place)
        JOIN runs r ON r.id BETWEEN u.id AND u.id
        WHERE r.xmin = pg_current_xact_id()::xid AND r.due_at <= (SELECT now FROM clock)
            AND r.place IS NULL
            AND EXISTS (SELECT 1 FROM nodes WHERE id = $1 AND NOT buried)
            AND r.tenant_id NOT IN (SELECT tenant_id FROM counted)
        ORDER BY u.place
        LIMIT $2::bigint
    ) AS c
),
base AS MATERIALIZED (UPDATE gate SET fence = fence + $2::bigint RETURNING fence - $2::bigint AS fence),
claim AS (
    INSERT INTO claims (id, node_id, claimed_at, run_ids, turns)
    SELECT
        (SELECT fence FROM base), $1, (SELECT now FROM clock), array_agg(id), array_fill(0, ARRAY[count(*)::integer])
    FROM chosen
    HAVING count(*) > 0
)
SELECT id, (SELECT fence FROM base) + k AS fence FROM chosen
