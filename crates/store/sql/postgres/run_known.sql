-- Live runs that had ended before: they were sent again, and do not run again.
SELECT unnest(forget_ended($1::uuid[]))
