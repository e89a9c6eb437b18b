-- Leases of a queue, and what concerns ordering keys and the depth of a queue, come one after the other.
SELECT pg_advisory_xact_lock(hashtextextended($1::uuid::text, 24))
