-- Deduplication keys whose time is over and whose messages have ended.
DELETE FROM message_keys WHERE (queue_id, key) IN (
    SELECT k.queue_id, k.key FROM message_keys AS k
    WHERE k.until <= ?1 AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.run_id = k.run_id)
    ORDER BY k.until LIMIT ?2
)
