-- Attempts that were followed by another one.
SELECT number, fence, node_id, started_at, finished_at, attempt_end, message, error, details
FROM attempts WHERE run_id = ?1 ORDER BY number
