-- How many messages of a queue are in which state, and since when the oldest ready one is due.
SELECT state, count(*), min(at) FROM messages WHERE queue_id = ?1 GROUP BY state
