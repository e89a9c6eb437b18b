-- A run that is about to leave the live table, if the grant is still valid. Looking and deleting apart is faster than
-- a DELETE with RETURNING, which fills a table of its own for one row.
SELECT job_id, tenant_id, job_version, scheduled_for, shard, due_at, origin, coalesced, parameters, attempts, lost,
    cancel_code, cancel_text
FROM runs WHERE id = ?1 AND turn = ?2 AND node_id = ?3 AND fence = ?4
