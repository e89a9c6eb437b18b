-- Latest outcome of a job that others depend on. Ends may be reported out of order.
INSERT INTO last_ends (job_id, outcome, finished_at, succeeded_at, fence) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (job_id) DO UPDATE SET
    outcome = CASE WHEN excluded.finished_at < finished_at THEN outcome ELSE excluded.outcome END,
    finished_at = max(finished_at, excluded.finished_at),
    succeeded_at = max(coalesce(succeeded_at, excluded.succeeded_at), coalesce(excluded.succeeded_at, succeeded_at)),
    fence = max(fence, excluded.fence)
