-- How many messages of a queue are leased, counted up to ?2.
SELECT count(*) FROM (SELECT 1 FROM messages WHERE queue_id = ?1 AND state = 2 LIMIT ?2)
