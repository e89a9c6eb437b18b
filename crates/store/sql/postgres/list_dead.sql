-- Dead letters of a tenant, newest first, with ids from $2 on and before $3.
SELECT 1::smallint AS part, h.id, h.origin, h.outcome, h.job_id FROM history h
WHERE h.dead_letter AND (h.tenant_id, h.id) >= ($1, $2::uuid) AND (h.tenant_id, h.id) < ($1, $3::uuid)
ORDER BY h.tenant_id DESC, h.id DESC LIMIT $4::bigint
