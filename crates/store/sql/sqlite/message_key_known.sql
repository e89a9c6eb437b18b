-- The message of a deduplication key, if the key still counts: its time is not over, or its message has not ended.
SELECT k.run_id FROM message_keys AS k
WHERE k.queue_id = ?1 AND k.key = ?2
    AND (k.until > ?3 OR EXISTS (SELECT 1 FROM messages AS m WHERE m.run_id = k.run_id))
