-- Runs that waited long enough. Under the gate, with the lock of waits alone. $1 the waits that only a decision ends. Those
-- that stood aside ($2) get in line anew.
WITH woken AS (
    UPDATE runs
    SET
        wait = 0, wait_until = NULL,
        order_at = CASE WHEN wait = ANY ($2::smallint[]) THEN greatest(order_at, clock()) ELSE order_at END
    WHERE wait_until <= clock() AND wait + 0 <> 0 AND wait + 0 <> ALL ($1::smallint[])
    RETURNING id
)
SELECT count(*) FROM woken
