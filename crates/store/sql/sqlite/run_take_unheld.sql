-- A run that nobody holds leaves the live table.
DELETE FROM runs WHERE id = ?1 AND node_id IS NULL
RETURNING job_id, tenant_id, job_version, scheduled_for, shard, due_at, origin, coalesced, parameters, attempts, lost,
    cancel_code, cancel_text
