-- Runs of a job that have not ended, with their lanes, when they are due, and whether they belong to a shard.
SELECT l.seq, r.tenant_id, r.lane, r.due_at, r.shard <> '' FROM live AS l JOIN runs AS r ON r.seq = l.seq WHERE l.job_id = ?1
