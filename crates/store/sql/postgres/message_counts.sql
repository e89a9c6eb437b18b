-- How many messages of queues are in which state, and since when the oldest ready one is due.
SELECT
    q.place,
    (SELECT count(*) FROM messages m WHERE m.queue_id = q.id AND m.state = 0) AS ready,
    (SELECT count(*) FROM messages m WHERE m.queue_id = q.id AND m.state = 1) AS delayed,
    (SELECT count(*) FROM messages m WHERE m.queue_id = q.id AND m.state = 2) AS leased,
    (SELECT count(*) FROM messages m WHERE m.queue_id = q.id AND m.ordering_key IS NOT NULL AND m.state = 3) AS blocked,
    (SELECT min(m.at) FROM messages m WHERE m.queue_id = q.id AND m.state = 0) AS oldest
FROM unnest($1::uuid[]) WITH ORDINALITY AS q (id, place)
ORDER BY q.place
