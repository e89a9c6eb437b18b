-- A message has ended.
DELETE FROM messages WHERE seq = ?1
