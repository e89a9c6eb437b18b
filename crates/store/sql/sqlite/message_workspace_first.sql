-- The first workspace that has a ready message.
SELECT workspace FROM messages WHERE queue_id = ?1 AND state = 0 ORDER BY workspace LIMIT 1
