-- How a run ended; the first end counts.
INSERT INTO ends (seq, outcome, reason, reason_text, dead_letter, attempts, lost, finished_at,
    number, attempt_end, node_id, fence, started_at, message, error, result, rows_affected, details)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
