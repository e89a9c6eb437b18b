-- Runs that waited long enough.
WITH woken AS (
    UPDATE runs SET wait = 0, wait_until = NULL
    WHERE wait <> 0 AND wait_until IS NOT NULL AND wait_until <= clock()
    RETURNING id
)
SELECT count(*) FROM woken
