-- A tag of a job. What is left of a deleted job of that name gives way.
INSERT OR REPLACE INTO job_tags (tenant_id, tag, name, job_id) VALUES (?1, ?2, ?3, ?4)
