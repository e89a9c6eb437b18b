-- The leases of messages end later, if they are still the same ones, but not after their time limits. Of each: $1 id, $2 the
-- token of its lease, $3 its queue, $4 how long the lease lasts, $5 a time limit that begins unless one has begun, $6 whether
-- it replaces that one, $7 its progress.
WITH clock AS MATERIALIZED (SELECT clock() AS now)
UPDATE messages m
SET
    deadline = CASE WHEN u.replaces THEN (SELECT now FROM clock) + u.time_limit
        ELSE coalesce(m.deadline, (SELECT now FROM clock) + u.time_limit) END,
    -- The least of those that are there.
    at = least(
        (SELECT now FROM clock) + u.lease,
        CASE WHEN u.replaces THEN (SELECT now FROM clock) + u.time_limit
            ELSE coalesce(m.deadline, (SELECT now FROM clock) + u.time_limit) END
    ),
    progress = coalesce(u.progress, m.progress)
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::bigint[], $5::bigint[], $6::boolean[], $7::text[])
    AS u (id, fence, queue_id, lease, time_limit, replaces, progress)
WHERE m.run_id BETWEEN u.id AND u.id AND m.state + 0 = 2 AND m.fence = u.fence AND m.queue_id = u.queue_id
    AND (m.deadline IS NULL OR m.deadline > (SELECT now FROM clock))
RETURNING m.run_id, m.fence, m.at, (SELECT r.cancel_code IS NOT NULL FROM runs r WHERE r.id = m.run_id), m.queue_id
