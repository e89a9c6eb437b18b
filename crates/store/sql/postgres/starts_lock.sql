-- Waits until no transaction looks whether a tick may start, and keeps others from looking until commit.
SELECT pg_advisory_xact_lock('runs'::regclass::oid::integer, 1)
