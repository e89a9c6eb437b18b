-- A run that has not ended.
INSERT INTO live (job_id, order_at, id, seq) VALUES (?1, ?2, ?3, ?4)
