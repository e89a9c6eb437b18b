-- The next (tenant, priority) that has work, by one step in the index.
SELECT tenant_id, priority FROM runs INDEXED BY runs_lane
WHERE node_id IS NULL AND wait = 0 AND (tenant_id, priority) > (?1, ?2)
ORDER BY tenant_id, priority LIMIT 1
