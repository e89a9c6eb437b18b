-- A run can be claimed again.
INSERT INTO queue (tenant_id, lane, due_at, seq)
SELECT tenant_id, lane, due_at, seq FROM runs WHERE seq = ?1
