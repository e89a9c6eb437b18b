-- Ends of runs without optional columns, which are most of them.
INSERT OR FAIL INTO ends (attempt_end, node_id, seq, outcome, attempts, lost, finished_at, number, fence, started_at,
    job_id, id, dead_letter)
VALUES (?1, ?2, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
