-- The next queue after ?1 that has messages, and whether it was deleted.
SELECT m.queue_id, NOT EXISTS (SELECT 1 FROM jobs AS j WHERE j.id = m.queue_id AND j.state <> 'DELETED')
FROM messages AS m WHERE m.queue_id > ?1 ORDER BY m.queue_id LIMIT 1
