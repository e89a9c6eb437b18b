-- What a tenant's live runs are doing.
SELECT
    count(*) FILTER (WHERE wait <> 0 OR due_at > ?2),
    count(*) FILTER (WHERE node_id IS NULL AND wait = 0 AND due_at <= ?2),
    count(*) FILTER (WHERE node_id IS NOT NULL AND wait = 0 AND due_at <= ?2),
    min(due_at) FILTER (WHERE node_id IS NULL AND wait = 0 AND due_at <= ?2)
FROM runs WHERE tenant_id = ?1
