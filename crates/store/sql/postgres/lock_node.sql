-- Writes of a node share this lock; the statement that declares it dead takes it alone, so that none is under way then.
SELECT pg_advisory_xact_lock_shared($1)
