-- An alert, unless it is known.
INSERT OR IGNORE INTO alerts (id, at, kind, tenant_id, job_id, run_id, text, settled)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
