-- Jobs that once had a name: deleted ones, and those that the audit knows under it. The index of the audit holds
-- changes of jobs only, so it is walked as a whole rather than the audit.
SELECT id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id FROM jobs
WHERE tenant_id = ?1 AND (name <> ?2 OR state = 'DELETED') AND id IN (
    SELECT id FROM jobs WHERE tenant_id = ?1 AND name = ?2 AND state = 'DELETED'
    UNION
    SELECT job_id FROM audit INDEXED BY audit_job
    WHERE kind IN ('JOB_CREATED', 'JOB_MODIFIED', 'JOB_DELETED') AND tenant_id = ?1 AND instr(details, ?3) > 0
)
ORDER BY updated_at DESC LIMIT ?4
