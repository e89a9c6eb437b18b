-- A part of a tenant's chain.
SELECT place, at, tenant_id, actor, kind, job_id, run_id, outcome, details, node_id, runs, number, hash FROM audit
WHERE tenant_id = ?1 AND number > ?2 AND number IS NOT NULL ORDER BY number LIMIT ?3
