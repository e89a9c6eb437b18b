-- Deletes claims without live runs. The index visits them by id, as in every statement that deletes
-- or changes several claims.
DELETE FROM claims WHERE id = ANY ($1::bigint[])
