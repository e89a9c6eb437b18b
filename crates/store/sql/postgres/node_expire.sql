-- Declares nodes dead whose lease expired, under their locks: some may have renewed it meanwhile.
-- If a living node has the same name, the process was already started again.
UPDATE nodes n SET dead = true, gone_at = CASE WHEN EXISTS (
    SELECT 1 FROM nodes o WHERE o.name = n.name AND o.id <> n.id AND NOT o.dead AND o.lease_until >= clock()
) THEN clock() END
WHERE n.id = ANY ($1::uuid[]) AND NOT n.dead AND n.lease_until < clock()
RETURNING n.id
