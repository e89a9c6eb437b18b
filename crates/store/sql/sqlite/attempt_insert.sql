-- An attempt that another one follows.
INSERT OR REPLACE INTO attempts (run_id, number, job_id, node_id, fence, started_at, finished_at, attempt_end, message, error, details)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
