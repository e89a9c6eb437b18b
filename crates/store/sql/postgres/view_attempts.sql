-- A run's ended attempts; the last one is part of the run's own record.
SELECT number, fence, node_id, started_at, finished_at, attempt_end, message, error, details
FROM attempts WHERE run_id = $1
UNION ALL
SELECT number, fence, node_id, started_at, finished_at, attempt_end, message, error, details
FROM history WHERE id = $1 AND number IS NOT NULL
ORDER BY 1
