-- Dead letters of a tenant, newest first and before $2.
SELECT 1::smallint AS part, h.id, h.origin, h.outcome, h.job_id FROM history h
WHERE h.dead_letter AND h.tenant_id >= $1 AND (h.tenant_id, h.id) < ($1, $2::uuid)
ORDER BY h.tenant_id DESC, h.id DESC LIMIT $3::bigint
