-- How a run ended.
INSERT INTO ends (seq, outcome, attempts, lost, finished_at, number, attempt_end, node_id, fence, started_at, job_id, id,
    reason, reason_text, dead_letter, message, error, result, rows_affected, details, tenant_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
