-- What belonged to a user who is gone.
DELETE FROM identities WHERE owner_id = ?1
