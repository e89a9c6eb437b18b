-- How a run ended.
INSERT INTO ends (attempt_end, node_id, seq, outcome, attempts, lost, finished_at, number, fence, started_at, job_id, id,
    reason, reason_text, dead_letter, message, error, result, rows_affected, details, tenant_id,
    job_version)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
