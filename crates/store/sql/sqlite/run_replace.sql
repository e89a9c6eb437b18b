-- Runs of a job that have not ended, with their lanes and what they would be in the queue. What belongs to a shard stays there.
SELECT l.seq, r.tenant_id, r.lane, r.priority, r.due_at FROM live AS l JOIN runs AS r ON r.seq = l.seq WHERE l.job_id = ?1 AND r.shard = ''
