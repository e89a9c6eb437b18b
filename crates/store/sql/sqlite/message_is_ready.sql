-- Whether a queue has a message that can be leased.
SELECT EXISTS (SELECT 1 FROM messages WHERE queue_id = ?1 AND state = 0)
    OR EXISTS (SELECT 1 FROM messages WHERE queue_id = ?1 AND state = 1 AND at <= ?2)
