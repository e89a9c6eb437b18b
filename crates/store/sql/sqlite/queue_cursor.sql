-- The workspace of a queue that was served last, its messages in that turn, and the tokens of the rate limit.
SELECT workspace, served, tokens, refilled_at FROM queue_cursors WHERE queue_id = ?1
