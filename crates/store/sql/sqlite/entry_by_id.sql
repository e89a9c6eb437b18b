-- One entry.
SELECT body, version, created_at, updated_at FROM identities WHERE id = ?1
