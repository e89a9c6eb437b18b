-- Runs that were called to take a place in their pool can be claimed. Under the gate, with the lock of waits alone.
WITH woken AS (
    UPDATE runs r SET wait = 0, wait_until = NULL
    FROM pool_runs p
    WHERE p.turn IS NULL AND p.called_at IS NOT NULL AND r.id BETWEEN p.run_id AND p.run_id AND r.wait + 0 = 6
    RETURNING r.id
)
SELECT count(*) FROM woken
