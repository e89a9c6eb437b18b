-- What the salts of the users' passwords and keys are made of at the SQL door; drawn at the first
-- start that needs it.
ALTER TABLE identity_generation ADD COLUMN salt bytea;
