-- The processes of these nodes have ended, and so do their leases. Under their locks.
UPDATE nodes SET lease_until = least(lease_until, clock() - 1), dead = true WHERE id = ANY ($1::uuid[]) AND NOT dead
