-- How many messages of a workspace are leased, counted up to ?3.
SELECT count(*) FROM (SELECT 1 FROM messages WHERE queue_id = ?1 AND workspace = ?2 AND state = 2 LIMIT ?3)
