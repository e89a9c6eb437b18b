-- Every node.
SELECT id, name, address, version, roles, joined_at, renewed_at, lease_until, buried
FROM nodes ORDER BY joined_at, id
