-- Claims of which nothing is left. The index visits them by id, as everyone does who deletes or changes several claims.
DELETE FROM claims WHERE id = ANY ($1::bigint[])
