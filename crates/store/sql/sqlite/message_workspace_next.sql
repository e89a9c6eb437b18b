-- The next workspace after ?2 that has a ready message.
SELECT workspace FROM messages WHERE queue_id = ?1 AND state = 0 AND workspace > ?2 ORDER BY workspace LIMIT 1
