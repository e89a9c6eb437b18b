-- A message is leased. Its time to live was for the first lease.
UPDATE messages SET state = 2, at = ?2, fence = ?3, node_id = ?4, leased_at = ?5, expires_at = NULL WHERE seq = ?1
