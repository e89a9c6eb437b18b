-- The same for the queues of messages $1 that have ordering keys.
SELECT pg_advisory_xact_lock(q.lock)
FROM (
    SELECT DISTINCT hashtextextended(m.queue_id::text, 24) AS lock
    FROM unnest($1::uuid[]) AS u (id)
    JOIN messages m ON m.run_id BETWEEN u.id AND u.id AND m.ordering_key IS NOT NULL
    ORDER BY 1
) AS q
