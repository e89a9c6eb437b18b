-- Asks the worker of a message to stop. Returns the node that leased it.
UPDATE runs r SET cancel_code = $2, cancel_text = $3
FROM messages m
WHERE r.id = $1 AND m.run_id = $1 AND m.state + 0 = 2 AND m.queue_id = $4
RETURNING coalesce(m.node_id, '00000000-0000-0000-0000-000000000000')
