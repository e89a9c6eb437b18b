-- The tenants that have dead letters, from one to the next by the index, and the time.
WITH RECURSIVE dead (tenant_id) AS (
    SELECT min(tenant_id) FROM ends INDEXED BY ends_dead WHERE dead_letter = 1
    UNION ALL
    SELECT (SELECT min(ends.tenant_id) FROM ends INDEXED BY ends_dead
        WHERE ends.dead_letter = 1 AND ends.tenant_id > dead.tenant_id)
    FROM dead WHERE dead.tenant_id IS NOT NULL
)
SELECT tenant_id, {now} FROM dead WHERE tenant_id IS NOT NULL
