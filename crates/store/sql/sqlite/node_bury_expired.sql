-- Nodes whose lease ran out.
UPDATE nodes SET buried = 1 WHERE lease_until < ?1 AND NOT buried RETURNING id
