-- Runs that waited long enough. Those that stood aside for other jobs get in line anew (?2).
UPDATE runs SET wait = 0, wait_until = NULL, order_at = CASE wait WHEN 2 THEN max(order_at, ?2) ELSE order_at END
WHERE wait <> 0 AND wait_until <= ?1
