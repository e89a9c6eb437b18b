-- When the next delayed message of a queue becomes ready.
SELECT min(at) FROM messages WHERE queue_id = ?1 AND state = 1
