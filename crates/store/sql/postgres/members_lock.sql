-- Changes of the list of nodes come one at a time. A renewal is not one: it changes a single row.
SELECT pg_advisory_xact_lock('runs'::regclass::oid::integer, 3)
