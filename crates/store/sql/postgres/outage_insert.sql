-- The time since a scheduler last took work, if none is alive but node $1, which joins now.
INSERT INTO outages (since, until)
SELECT max(coalesce(retired_at, renewed_at)), clock()
FROM nodes
WHERE id <> $1 AND 'SCHEDULER' = ANY (roles)
HAVING max(coalesce(retired_at, renewed_at)) < clock() AND NOT bool_or(NOT dead AND lease_until >= clock())
ON CONFLICT (since) DO NOTHING
