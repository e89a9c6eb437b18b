-- Runs that waited long enough. Under the gate, with the lock of waits alone. Those that stood aside for other jobs get in line anew.
WITH woken AS (
    UPDATE runs
    SET wait = 0, wait_until = NULL, order_at = CASE wait WHEN 2 THEN greatest(order_at, clock()) ELSE order_at END
    WHERE wait_until <= clock() AND wait + 0 NOT IN (0, 7)
    RETURNING id
)
SELECT count(*) FROM woken
