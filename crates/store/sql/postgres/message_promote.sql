-- Delayed messages of a queue whose time has come, at most $2.
UPDATE messages m SET state = 0
FROM (
    SELECT run_id FROM messages WHERE queue_id = $1 AND state = 1 AND at <= clock() ORDER BY at LIMIT $2::bigint
) AS d
WHERE m.run_id BETWEEN d.run_id AND d.run_id AND m.state + 0 = 1
