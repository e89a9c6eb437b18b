-- Outputs of runs that are not kept, from the id $1 up to but without $2.
DELETE FROM outputs o
WHERE o.run_id >= $1 AND o.run_id < $2
    AND NOT EXISTS (SELECT 1 FROM history_new n WHERE n.id = o.run_id)
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = o.run_id)
