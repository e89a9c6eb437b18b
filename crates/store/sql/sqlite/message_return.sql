-- A message can be leased again, after a time. ?4 is the token of a lease that its worker released.
UPDATE messages
SET state = ?2, at = ?3, released_fence = ?4, fence = NULL, node_id = NULL, leased_at = NULL, deadline = NULL
WHERE seq = ?1
