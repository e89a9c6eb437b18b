-- The workspace of a queue that was served last, and the tokens of its rate limit.
SELECT workspace, tokens, refilled_at FROM queue_cursors WHERE queue_id = ?1
