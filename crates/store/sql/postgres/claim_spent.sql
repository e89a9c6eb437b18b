-- Claims of which nothing is left.
DELETE FROM claims WHERE id = ANY ($1::bigint[])
