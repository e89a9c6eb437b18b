-- Every node, and how much it holds.
SELECT nodes.id, nodes.name, nodes.address, nodes.version, nodes.roles, nodes.joined_at, nodes.renewed_at, nodes.lease_until,
    nodes.buried, coalesce(held.runs, 0)
FROM nodes LEFT JOIN (
    SELECT node_id, count(*) AS runs FROM runs WHERE node_id IS NOT NULL GROUP BY node_id
) AS held ON held.node_id = nodes.id
ORDER BY nodes.joined_at, nodes.id
