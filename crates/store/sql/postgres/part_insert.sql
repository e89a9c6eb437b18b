-- The child runs of a run ($1), unless it has some, or its cancellation was requested. Runs under
-- the gate. $2 is the node that holds it with the fence $3; without one, the run was recorded by
-- this transaction, and waits for its child runs from the beginning.
WITH clock AS MATERIALIZED (SELECT clock() AS now),
parent AS MATERIALIZED (
    SELECT r.id, r.requested_by FROM runs r
    WHERE r.id = $1 AND r.cancel_code IS NULL
        AND NOT EXISTS (SELECT 1 FROM parts p WHERE p.parent_id = r.id)
        AND CASE
            WHEN $2::uuid IS NULL THEN r.xmin = pg_current_xact_id()::xid
            ELSE EXISTS (
                SELECT 1 FROM nodes n
                JOIN claims c ON c.node_id = n.id
                CROSS JOIN LATERAL unnest(c.run_ids, c.turns) WITH ORDINALITY AS h (id, turn, k)
                WHERE n.id = $2 AND NOT n.dead AND h.id = r.id AND h.turn = r.turn AND c.id + h.k = $3::bigint
            )
        END
),
given AS MATERIALIZED (
    SELECT u.*, parent.requested_by FROM unnest($4::uuid[], $5::text[], $6::text[], $7::text[])
        WITH ORDINALITY AS u (id, shard, parameters, place, number)
    CROSS JOIN parent
),
recorded AS (
    INSERT INTO runs (
        id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, lane, origin, coalesced,
        ignore_dependencies, parameters, attempts, lost, turn, wait, place, requested_by, created_at
    )
    SELECT
        u.id, $8::uuid, $9::uuid, $10::integer, $11::bigint, u.shard, c.now, c.now, $12::smallint, $13::smallint, 0,
        true, u.parameters, 0, 0, 0, 0, CASE WHEN u.place <> '' THEN string_to_array(u.place, E'\n') END,
        u.requested_by, c.now
    FROM given u CROSS JOIN clock c
),
listed AS (
    INSERT INTO parts (parent_id, number, run_id, shard) SELECT $1, u.number, u.id, u.shard FROM given u
)
SELECT (SELECT count(*) FROM parent) > 0 AS split
