-- The messages of deduplication keys.
SELECT key, run_id FROM message_keys WHERE queue_id = $1 AND key = ANY ($2::text[])
