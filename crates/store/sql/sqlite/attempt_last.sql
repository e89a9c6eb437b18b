-- The last attempt of a run that has ended.
SELECT number, fence, node_id, started_at, finished_at, attempt_end, message, error, details
FROM history WHERE id = ?1 AND number IS NOT NULL
