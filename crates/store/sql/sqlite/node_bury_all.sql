-- Every node of a database that was restored: none of them works on this copy.
UPDATE nodes SET buried = 1 RETURNING id
