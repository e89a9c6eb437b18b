-- Entries.
SELECT body, version, created_at, updated_at FROM identities WHERE id = ANY ($1::uuid[])
