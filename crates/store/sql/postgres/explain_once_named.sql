-- Jobs that once had a name: deleted ones, and those that the audit knows under it.
SELECT id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id FROM jobs
WHERE tenant_id = $1 AND (name <> $2 OR state = 'DELETED') AND id IN (
    SELECT id FROM jobs WHERE tenant_id = $1 AND name = $2 AND state = 'DELETED'
    UNION
    SELECT job_id FROM audit
    WHERE kind IN ('JOB_CREATED', 'JOB_MODIFIED', 'JOB_DELETED') AND tenant_id = $1 AND strpos(details, $3) > 0
)
ORDER BY updated_at DESC LIMIT $4
