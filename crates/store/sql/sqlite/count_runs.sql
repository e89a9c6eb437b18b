-- Live runs by state: all; waiting for child runs; waiting for something else, and how many of
-- those wait for earlier runs of their job or for a place in a pool; queued and due; queued and not
-- due; the due time of the oldest due run that any node may execute; messages that are not due;
-- messages that no worker has leased.
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
