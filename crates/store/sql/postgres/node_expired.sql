-- Nodes whose lease ran out.
SELECT id FROM nodes WHERE NOT buried AND lease_until < clock()
