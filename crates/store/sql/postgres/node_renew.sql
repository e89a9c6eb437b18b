-- Extends a lease. Returns the runs with a cancellation request, the claims of the node, those of
-- them that are old although most of their runs may have ended, the tenants with another weight
-- than usual ($3), and whether some tenants have a limit of concurrent runs. A lease that has
-- expired is not extended.
UPDATE nodes SET lease_until = clock() + $2::bigint, renewed_at = clock()
WHERE id = $1 AND NOT dead AND lease_until >= clock()
RETURNING
    clock() AS now,
    ARRAY(
        SELECT r.id FROM runs r
        WHERE r.cancel_code IS NOT NULL
            AND ((r.id, r.turn) IN (SELECT unnest(run_ids), unnest(turns) FROM claims WHERE node_id = $1)) IS TRUE
    ) AS cancel,
    ARRAY(SELECT id FROM claims WHERE node_id = $1) AS claims,
    ARRAY(
        SELECT c.id FROM claims c
        WHERE c.node_id = $1 AND c.claimed_at < clock() - 60000000
            AND (cardinality(c.run_ids) > 1 OR (SELECT r.turn FROM runs r WHERE r.id = c.run_ids[1]) IS NULL)
    ) AS old,
    draining,
    ARRAY(SELECT tenant_id FROM quotas WHERE weight <> $3::integer ORDER BY tenant_id) AS tenants,
    ARRAY(SELECT weight FROM quotas WHERE weight <> $3::integer ORDER BY tenant_id) AS weights,
    EXISTS (SELECT 1 FROM quotas WHERE max_concurrent IS NOT NULL) AS counts_tenants
