-- The store is open in one process only, which is now node ?1: all other nodes that plan have ended.
UPDATE nodes SET lease_until = min(lease_until, ?2), buried = 1
WHERE id <> ?1 AND NOT buried AND EXISTS (SELECT 1 FROM json_each(roles) WHERE value = 'SCHEDULER')
