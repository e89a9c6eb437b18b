-- The next message of an ordering key, if the one before it has ended: ready, or delayed until its time.
UPDATE messages SET state = CASE WHEN at > ?3 THEN 1 ELSE 0 END
WHERE state = 3 AND seq = (
    SELECT seq FROM messages WHERE queue_id = ?1 AND ordering_key = ?2 AND ordering_key IS NOT NULL ORDER BY seq LIMIT 1
)
