-- A run that can be claimed when its time comes.
INSERT INTO queue (tenant_id, priority, due_at, seq) VALUES (?1, ?2, ?3, ?4)
