-- Messages of a queue that no worker has.
SELECT m.run_id, m.queue_id, NULL, r.attempts + r.lost
FROM messages AS m CROSS JOIN runs AS r ON r.seq = m.seq
WHERE m.queue_id = ?1 AND m.state <> 2 LIMIT ?2
