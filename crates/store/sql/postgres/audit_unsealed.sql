-- Rows that have no number yet.
SELECT place, at, tenant_id, actor, kind, job_id, run_id, outcome, details, node_id, runs, number, hash FROM audit
WHERE number IS NULL ORDER BY place LIMIT $1
