-- Deletes a claim whose runs have all ended.
DELETE FROM claims WHERE first = ?1
