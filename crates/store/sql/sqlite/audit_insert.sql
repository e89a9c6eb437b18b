-- Who did what.
INSERT INTO audit (tenant_id, at, actor, kind, job_id, run_id, node_id, outcome, details, runs)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
