-- Whether a workspace of a queue has a ready message.
SELECT 1 FROM messages WHERE queue_id = ?1 AND workspace = ?2 AND state = 0 LIMIT 1
