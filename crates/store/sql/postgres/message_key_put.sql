-- The messages of deduplication keys, where the key counts no more for the one before.
INSERT INTO message_keys AS k (queue_id, key, run_id, until)
SELECT $1, u.key, u.run_id, clock() + u.window_us
FROM unnest($2::text[], $3::uuid[], $4::bigint[]) AS u (key, run_id, window_us)
ORDER BY u.key
ON CONFLICT (queue_id, key) DO UPDATE SET run_id = excluded.run_id, until = excluded.until
WHERE k.until <= clock() AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.run_id = k.run_id)
