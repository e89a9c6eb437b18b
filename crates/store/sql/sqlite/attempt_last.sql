-- The last attempt of a run that has ended.
SELECT e.number, e.fence, e.node_id, e.started_at, e.finished_at, e.attempt_end, e.message, e.error, e.details
FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq WHERE r.id = ?1 AND e.number IS NOT NULL
