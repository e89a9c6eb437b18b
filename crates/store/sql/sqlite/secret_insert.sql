-- A secret that was not there.
INSERT OR IGNORE INTO secrets (tenant_id, job_id, name, version, key_id, data_key, value, changed_at, changed_by)
VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8)
