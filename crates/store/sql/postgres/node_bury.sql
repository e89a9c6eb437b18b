-- Buries nodes whose lease ran out, under their locks: some may have renewed it meanwhile.
UPDATE nodes SET buried = true
WHERE id = ANY ($1::uuid[]) AND NOT buried AND lease_until < clock()
RETURNING id
