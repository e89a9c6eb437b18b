-- A message is leased.
UPDATE messages SET state = 2, at = ?2, fence = ?3, node_id = ?4, leased_at = ?5 WHERE seq = ?1
