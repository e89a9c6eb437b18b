-- No tick vanishes until this transaction is over. The next statement sees all that have vanished before, and whatever
-- makes one vanish reads the clock after it.
SELECT pg_advisory_xact_lock_shared('runs'::regclass::oid::integer, 1)
