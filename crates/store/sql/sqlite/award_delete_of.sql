-- What was given to, or consisted in, what is gone.
DELETE FROM awards WHERE to_id = ?1 OR role_id = ?1
