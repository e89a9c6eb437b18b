-- How far a run is acknowledged by the schedulers that are registered, in the present epoch.
SELECT
    EXISTS (SELECT 1 FROM roles AS r JOIN nodes AS n ON n.id = r.node_id AND NOT n.dead WHERE r.name = 'LEADER'),
    (
        SELECT count(*) FROM acknowledgements AS a
        JOIN nodes AS n ON n.id = a.node_id AND n.gone_at IS NULL
        WHERE a.run_id = ?1 AND a.epoch = (SELECT epoch FROM roles WHERE name = 'LEADER')
            AND EXISTS (SELECT 1 FROM json_each(n.roles) AS role WHERE upper(role.value) = 'SCHEDULER')
    ),
    (
        SELECT count(*) FROM nodes AS n
        WHERE n.gone_at IS NULL AND EXISTS (SELECT 1 FROM json_each(n.roles) AS role WHERE upper(role.value) = 'SCHEDULER')
    )
