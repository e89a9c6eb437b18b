-- A message can be leased again, after a time.
UPDATE messages SET state = ?2, at = ?3, fence = NULL, node_id = NULL, leased_at = NULL, deadline = NULL WHERE seq = ?1
