-- A run that waits no longer.
UPDATE runs SET wait = 0, wait_until = NULL WHERE id = ?1
