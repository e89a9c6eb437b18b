-- What the live runs are doing: all, those that wait, those in the queue that are due, and the others; since when the oldest
-- of those that any node may execute is due.
SELECT
    (SELECT count(*) FROM live),
    (SELECT count(*) FROM runs WHERE wait <> 0),
    count(*) FILTER (WHERE due_at <= ?1),
    count(*) FILTER (WHERE due_at > ?1),
    min(due_at) FILTER (WHERE due_at <= ?1 AND priority < 10)
FROM queue
