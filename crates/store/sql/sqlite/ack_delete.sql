-- Acknowledgements of a run that nobody remembers.
DELETE FROM acknowledgements WHERE run_id = ?1
