-- Live runs that had ended before: they were sent again, and do not run again.
-- $2 and $3 are the first and the last of $1.
SELECT unnest(forget_ended($1::uuid[], $2, $3))
