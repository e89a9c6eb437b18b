-- The name of a tenant, a user or a role.
SELECT name FROM identities WHERE id = ?1
