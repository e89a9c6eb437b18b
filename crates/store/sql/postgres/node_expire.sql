-- The processes of these nodes have ended, and so do their leases: $1, or all that plan but $2.
UPDATE nodes SET lease_until = least(lease_until, clock() - 1)
WHERE NOT buried AND CASE WHEN $1::uuid IS NOT NULL THEN id = $1 ELSE id <> $2 AND 'SCHEDULER' = ANY (roles) END
