-- Nodes whose lease ran out, whether a run waited long enough, whether one waits for a place in a pool, whether the time for a decision is over, and whether there is anything else for a reaper to do: a node
-- that was declared dead and still holds something, or one that has been gone for longer than $1. A scheduler that ended with all
-- others is not due until $2 after the outage: the process that follows it may come back with its start log. $3 the waits that
-- only a decision ends.
SELECT
    ARRAY(
        SELECT n.id FROM nodes n
        WHERE NOT n.dead AND n.lease_until < clock() AND NOT ('SCHEDULER' = ANY (n.roles) AND EXISTS (
            SELECT 1 FROM outages o
            WHERE o.until > clock() - $2::bigint AND n.renewed_at < o.until AND n.lease_until >= o.since
        ))
    ) AS expired,
    EXISTS (SELECT 1 FROM runs WHERE wait_until <= clock() AND wait + 0 <> 0 AND wait + 0 <> ALL ($3::smallint[])) AS waited,
    EXISTS (SELECT 1 FROM nodes WHERE dead AND (NOT cleared OR gone_at < clock() - $1::bigint)) AS due,
    EXISTS (SELECT 1 FROM pool_runs WHERE turn IS NULL) AS pooled,
    EXISTS (SELECT 1 FROM runs WHERE wait_until <= clock() AND wait + 0 = ANY ($3::smallint[])) AS undecided
