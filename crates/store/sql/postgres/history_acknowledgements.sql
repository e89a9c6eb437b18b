-- Acknowledgements of runs that are not kept, from the id $1 up to but without $2.
DELETE FROM acknowledgements a
WHERE a.run_id >= $1 AND a.run_id < $2
    AND NOT EXISTS (SELECT 1 FROM history_new n WHERE n.id = a.run_id)
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = a.run_id)
