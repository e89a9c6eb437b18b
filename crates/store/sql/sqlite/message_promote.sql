-- Delayed messages whose time has come, at most ?3.
UPDATE messages SET state = 0 WHERE seq IN (
    SELECT seq FROM messages WHERE queue_id = ?1 AND state = 1 AND at <= ?2 ORDER BY at LIMIT ?3
)
