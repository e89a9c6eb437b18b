-- Runs that waited long enough.
WITH woken AS (
    UPDATE runs SET wait = 0, wait_until = NULL
    WHERE wait_until <= clock() AND wait + 0 <> 0
    RETURNING id
)
SELECT count(*) FROM woken
