-- Runs that a majority of the registered schedulers has acknowledged in the present epoch can be claimed. Under the gate.
WITH epoch AS MATERIALIZED (
    SELECT l.epoch FROM roles l JOIN nodes n ON n.id = l.node_id AND NOT n.dead WHERE l.name = 'LEADER'
),
schedulers AS MATERIALIZED (SELECT id FROM nodes WHERE gone_at IS NULL AND 'SCHEDULER' = ANY (roles)),
woken AS (
    UPDATE runs r SET wait = 0, wait_until = NULL
    WHERE r.wait = 3 AND (
        SELECT count(*) FROM acknowledgements a
        WHERE a.run_id = r.id AND a.epoch = (SELECT epoch FROM epoch) AND a.node_id IN (SELECT id FROM schedulers)
    ) > (SELECT count(*) FROM schedulers) / 2
    RETURNING r.id
)
SELECT count(*) FROM woken
