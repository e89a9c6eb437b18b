-- Messages whose leases ended.
SELECT m.run_id, m.queue_id, m.fence, r.attempts + r.lost, m.deadline IS NOT NULL AND m.deadline <= ?1
FROM messages AS m CROSS JOIN runs AS r ON r.seq = m.seq
WHERE m.state = 2 AND m.at <= ?1 ORDER BY m.at LIMIT ?2
