-- Messages that no worker has leased in time.
SELECT m.run_id, m.queue_id, NULL, r.attempts + r.lost
FROM messages AS m CROSS JOIN runs AS r ON r.seq = m.seq
WHERE m.expires_at IS NOT NULL AND m.expires_at <= ?1 AND m.state <> 2 ORDER BY m.expires_at LIMIT ?2
