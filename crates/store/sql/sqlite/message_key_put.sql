-- The message of a deduplication key.
INSERT OR REPLACE INTO message_keys (queue_id, key, run_id, until) VALUES (?1, ?2, ?3, ?4)
