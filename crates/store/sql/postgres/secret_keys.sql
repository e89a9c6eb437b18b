-- How many secrets are sealed under which master key.
SELECT key_id, count(*) FROM secrets GROUP BY key_id ORDER BY key_id
