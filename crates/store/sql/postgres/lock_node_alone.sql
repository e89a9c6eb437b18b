-- Waits until no write of the node is under way, and keeps others off until commit.
SELECT pg_advisory_xact_lock($1)
