-- The outputs of a run that is gone.
DELETE FROM outputs WHERE run_id = ?1
