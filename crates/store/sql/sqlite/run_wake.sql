-- A run that waits no longer, and its place in line.
UPDATE runs SET wait = 0, wait_until = NULL, order_at = ?2 WHERE seq = ?1
