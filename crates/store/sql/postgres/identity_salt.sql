-- What salts are made of; the first that is offered stays.
UPDATE identity_generation SET salt = coalesce(salt, $1) RETURNING salt
