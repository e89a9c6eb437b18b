-- The time since the last scheduler was alive, if none is but node $1, which joins now.
INSERT INTO outages (since, until)
SELECT max(renewed_at), clock()
FROM nodes
WHERE id <> $1 AND 'SCHEDULER' = ANY (roles)
HAVING max(renewed_at) < clock() AND NOT bool_or(NOT buried AND lease_until >= clock())
ON CONFLICT (since) DO NOTHING
