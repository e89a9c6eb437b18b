-- Messages can be leased again: after a delay, or as they were if there is none. Of each: $2 id, $3 the token of its lease,
-- $4 the delay, $5 how the attempt ended, $6 its message, $7 its error, $8 its queue.
WITH clock AS MATERIALIZED (SELECT clock() AS now),
message AS (
    UPDATE messages m
    SET
        state = CASE WHEN u.delay > 0 THEN 1 ELSE 0 END, fence = NULL, leased_at = NULL, deadline = NULL,
        node_id = NULL, released_fence = CASE WHEN u.attempt_end IS NULL THEN u.fence END,
        at = coalesce((SELECT now FROM clock) + u.delay, m.order_at)
    FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::smallint[], $6::text[], $7::text[], $8::uuid[])
        AS u (id, fence, delay, attempt_end, message, error, queue_id)
    -- Columns of the lease, for the recorded attempt.
    JOIN messages o ON o.run_id BETWEEN u.id AND u.id AND o.state + 0 = 2 AND o.fence = u.fence
    WHERE m.run_id BETWEEN u.id AND u.id AND m.state + 0 = 2 AND m.fence = u.fence AND m.queue_id = u.queue_id
    RETURNING m.run_id, u.fence, u.delay, u.attempt_end, u.message, u.error, o.leased_at
),
run AS (
    UPDATE runs r
    SET
        due_at = coalesce((SELECT now FROM clock) + m.delay, r.due_at),
        attempts = r.attempts + CASE WHEN m.attempt_end <> 5 THEN 1 ELSE 0 END,
        lost = r.lost + CASE WHEN m.attempt_end = 5 THEN 1 ELSE 0 END
    FROM message m
    WHERE r.id BETWEEN m.run_id AND m.run_id
    RETURNING r.id, r.attempts + r.lost AS number
),
attempt AS (
    INSERT INTO attempts (run_id, number, fence, node_id, started_at, finished_at, attempt_end, message, error)
    SELECT m.run_id, r.number, m.fence, $1, m.leased_at, (SELECT now FROM clock), m.attempt_end, m.message, m.error
    FROM message m
    JOIN run r ON r.id = m.run_id
    WHERE m.attempt_end IS NOT NULL
    ON CONFLICT (run_id, number) DO NOTHING
)
SELECT run_id FROM message
