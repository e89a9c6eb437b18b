-- The queues of these that have a message that can be leased.
SELECT q.id
FROM unnest($1::uuid[]) AS q (id)
WHERE EXISTS (SELECT 1 FROM messages m WHERE m.queue_id = q.id AND m.state = 0)
    OR EXISTS (SELECT 1 FROM messages m WHERE m.queue_id = q.id AND m.state = 1 AND m.at <= clock())
