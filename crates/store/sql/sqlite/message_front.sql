-- The ready messages of a workspace that go first.
SELECT seq FROM messages
WHERE queue_id = ?1 AND workspace = ?2 AND state = 0 AND (expires_at IS NULL OR expires_at > ?3)
ORDER BY urgency, at, seq LIMIT ?4
