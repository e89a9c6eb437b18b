-- The attempts of a run that is gone.
DELETE FROM attempts WHERE run_id = ?1
