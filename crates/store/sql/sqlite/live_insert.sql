-- A run that has not ended.
INSERT INTO live (job_id, order_at, seq) VALUES (?1, ?2, ?3)
