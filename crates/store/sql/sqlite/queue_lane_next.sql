-- The next (tenant, lane) that has work, by one step in the tree. A comparison of pairs would
-- walk through every run of the last lane instead of jumping over it.
SELECT * FROM (
    SELECT tenant_id, lane FROM queue
    WHERE tenant_id = ?1 AND lane > ?2
    ORDER BY lane LIMIT 1)
UNION ALL
SELECT * FROM (
    SELECT tenant_id, lane FROM queue
    WHERE tenant_id > ?1
    ORDER BY tenant_id, lane LIMIT 1)
LIMIT 1
