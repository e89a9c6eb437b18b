-- Effects of runs that are not kept, from the id $1 up to but without $2.
DELETE FROM effects e
WHERE e.run_id >= $1 AND e.run_id < $2
    AND NOT EXISTS (SELECT 1 FROM history_new n WHERE n.id = e.run_id)
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = e.run_id)
