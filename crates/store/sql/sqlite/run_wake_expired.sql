-- Runs that waited long enough.
UPDATE runs SET wait = 0, wait_until = NULL WHERE wait <> 0 AND wait_until <= ?1
