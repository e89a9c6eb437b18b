-- The workspace of a queue that was served last, its messages in that turn, and the tokens of the rate limit.
INSERT OR REPLACE INTO queue_cursors (queue_id, workspace, served, tokens, refilled_at) VALUES (?1, ?2, ?3, ?4, ?5)
