-- What the live runs are doing: all, those that wait for their parts, those that wait for something else and how many of
-- them are in line for earlier runs of their job or for a place in a pool, those in the queue that are due, and the others; since when the oldest
-- of those is due that any node may execute; messages whose time has not come, and all that no worker has.
SELECT
    (SELECT count(*) FROM live),
    (SELECT count(*) FROM runs WHERE wait <> 0 AND wait = 4),
    (SELECT count(*) FROM runs WHERE wait <> 0 AND wait <> 4),
    (SELECT count(*) FROM runs WHERE wait <> 0 AND wait IN (1, 6, 8) AND due_at <= ?1),
    count(*) FILTER (WHERE due_at <= ?1),
    count(*) FILTER (WHERE due_at > ?1),
    min(due_at) FILTER (WHERE due_at <= ?1 AND lane < ?2),
    (SELECT count(*) FROM messages WHERE state IN (1, 3) AND at > ?1),
    (SELECT count(*) FROM messages WHERE state <> 2)
FROM queue
