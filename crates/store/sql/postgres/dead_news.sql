-- Tenants who are to be told about their dead letters, with how many there are up to $2, and those who were told and have
-- none any more. Whoever was told within $1 is not told again. From one tenant to the next by the index.
WITH RECURSIVE dead AS (
    (SELECT tenant_id FROM history WHERE dead_letter ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id FROM dead d CROSS JOIN LATERAL (
        SELECT h.tenant_id FROM history h WHERE h.dead_letter AND h.tenant_id > d.tenant_id ORDER BY h.tenant_id LIMIT 1
    ) AS n
)
SELECT
    coalesce(d.tenant_id, n.tenant_id) AS tenant_id,
    (
        SELECT count(*) FROM (
            SELECT 1 FROM history h WHERE h.dead_letter AND h.tenant_id = d.tenant_id LIMIT $2::bigint
        ) AS letters
    ) AS letters,
    clock() AS now
FROM dead d FULL JOIN dead_letter_notices n ON n.tenant_id = d.tenant_id
WHERE d.tenant_id IS NULL OR n.told_at IS NULL OR n.told_at <= clock() - $1::bigint
