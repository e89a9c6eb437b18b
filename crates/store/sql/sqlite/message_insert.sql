-- Columns of messages that other runs do not have.
INSERT INTO messages (seq, run_id, queue_id, workspace, urgency, state, at, order_at, ordering_key, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
