-- A message is leased, until ?2 and at most until the end of its time limit ?6. Its time to live was for the first lease.
UPDATE messages SET
    state = 2, at = min(?2, coalesce(?6, ?2)), fence = ?3, node_id = ?4, leased_at = ?5, deadline = ?6, expires_at = NULL
WHERE seq = ?1
