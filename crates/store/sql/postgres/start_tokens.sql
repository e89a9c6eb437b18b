-- Allocates $1 fencing tokens.
SELECT nextval('start_tokens') FROM generate_series(1, $1::bigint)
