-- A run leaves the live table, if the grant is still valid.
DELETE FROM runs WHERE id = ?1 AND turn = ?2 AND node_id = ?3
RETURNING job_id, tenant_id, job_version, scheduled_for, shard, due_at, origin, coalesced, parameters, attempts, lost,
    cancel_code, cancel_text
