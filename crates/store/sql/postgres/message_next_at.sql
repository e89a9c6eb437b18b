-- When the next delayed message of a queue becomes ready, the tokens that are left of its rate limit, and the clock.
SELECT
    (SELECT min(at) FROM messages WHERE queue_id = $1 AND state = 1) AS next_at,
    (SELECT tokens FROM queue_cursors WHERE queue_id = $1) AS tokens,
    clock() AS now
