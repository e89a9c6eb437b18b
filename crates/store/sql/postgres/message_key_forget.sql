-- Deduplication keys whose time is over and whose messages have ended.
WITH gone AS (
    DELETE FROM message_keys k USING (
        SELECT o.queue_id, o.key FROM message_keys o
        WHERE o.until <= clock() AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.run_id = o.run_id)
        ORDER BY o.until LIMIT $1::bigint
    ) AS o
    WHERE k.queue_id = o.queue_id AND k.key = o.key AND k.until <= clock()
    RETURNING 1
)
SELECT count(*) FROM gone
