-- No run begins to wait until this transaction is over. The next statement sees all runs that wait by now.
SELECT pg_advisory_xact_lock_shared('runs'::regclass::oid::integer, 2), clock() AS now
