-- A run can be claimed again.
INSERT INTO queue (tenant_id, priority, due_at, seq)
SELECT tenant_id, coalesce(lane, priority), due_at, seq FROM runs WHERE seq = ?1
