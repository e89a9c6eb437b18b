-- What the live runs are doing.
SELECT
    count(*) FILTER (WHERE node_id IS NULL AND wait = 0 AND due_at <= ?1),
    count(*) FILTER (WHERE node_id IS NOT NULL),
    count(*) FILTER (WHERE node_id IS NULL AND (wait <> 0 OR due_at > ?1)),
    min(due_at) FILTER (WHERE node_id IS NULL AND wait = 0 AND due_at <= ?1)
FROM runs
