-- The workspace of a queue that was served last, and the tokens of its rate limit.
INSERT OR REPLACE INTO queue_cursors (queue_id, workspace, tokens, refilled_at) VALUES (?1, ?2, ?3, ?4)
