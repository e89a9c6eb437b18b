-- No run is woken by others until this transaction is over. The next statement sees all that has ended by now.
SELECT pg_advisory_xact_lock('runs'::regclass::oid::integer, 2), clock() AS now
