-- Keys of messages that were not recorded after all.
DELETE FROM message_keys k
WHERE k.queue_id = $1 AND k.key = ANY ($2::text[]) AND k.run_id = ANY ($3::uuid[])
    AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.run_id = k.run_id)
