-- A setting, if it is the one that the change is based on.
UPDATE settings SET value = $2, version = version + 1, changed_at = clock() WHERE name = $1 AND version = $3
RETURNING version
