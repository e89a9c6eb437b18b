-- Keys that have been of no use for long.
DELETE FROM identities WHERE id IN (SELECT id FROM identities WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)
