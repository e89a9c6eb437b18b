-- Tenants who have no dead letters any more.
DELETE FROM dead_letter_notices n
WHERE n.tenant_id = ANY ($1::uuid[])
    AND NOT EXISTS (SELECT 1 FROM history h WHERE h.tenant_id = n.tenant_id AND h.dead_letter)
