-- Runs that have not ended.
INSERT OR FAIL INTO live (job_id, order_at, id, seq)
VALUES (?, ?, ?, ?)
