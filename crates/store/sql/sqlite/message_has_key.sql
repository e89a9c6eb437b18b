-- Whether a message with this ordering key has not ended.
SELECT 1 FROM messages WHERE queue_id = ?1 AND ordering_key = ?2 AND ordering_key IS NOT NULL
