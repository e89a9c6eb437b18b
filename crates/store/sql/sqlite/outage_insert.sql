-- The time since a scheduler last took work, if none is alive but node ?1, which joins now.
INSERT OR IGNORE INTO outages (since, until)
SELECT max(coalesce(retired_at, renewed_at)), ?2
FROM nodes
WHERE id <> ?1 AND EXISTS (SELECT 1 FROM json_each(roles) WHERE value = 'SCHEDULER')
HAVING max(coalesce(retired_at, renewed_at)) < ?2 AND max(NOT dead AND lease_until >= ?2) = 0
