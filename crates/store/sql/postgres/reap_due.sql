-- Nodes whose lease ran out, whether a run waited long enough, and whether there is anything else for a reaper to do: a node
-- that was buried and still holds something, or one that has been gone for longer than $1.
SELECT
    ARRAY(SELECT id FROM nodes WHERE NOT buried AND lease_until < clock()) AS expired,
    EXISTS (SELECT 1 FROM runs WHERE wait_until <= clock() AND wait + 0 <> 0) AS waited,
    EXISTS (SELECT 1 FROM nodes WHERE buried AND (NOT cleared OR gone_at < clock() - $1::bigint)) AS due
