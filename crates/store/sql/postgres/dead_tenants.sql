-- The tenants that have dead letters, from one to the next by the index, and the time.
WITH RECURSIVE dead AS (
    (SELECT tenant_id FROM history WHERE dead_letter ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id FROM dead d CROSS JOIN LATERAL (
        SELECT h.tenant_id FROM history h WHERE h.dead_letter AND h.tenant_id > d.tenant_id ORDER BY h.tenant_id LIMIT 1
    ) AS n
)
SELECT tenant_id, {now} FROM dead
