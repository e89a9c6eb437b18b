-- How a run ended.
INSERT INTO ends (seq, outcome, attempts, lost, finished_at, number, attempt_end, node_id, fence, started_at,
    reason, reason_text, dead_letter, message, error, result, rows_affected, details, tenant_id, id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
