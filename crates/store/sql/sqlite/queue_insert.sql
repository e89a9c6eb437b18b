-- Runs that can be claimed when their time comes.
INSERT OR FAIL INTO queue (tenant_id, lane, due_at, seq)
VALUES (?, ?, ?, ?)
