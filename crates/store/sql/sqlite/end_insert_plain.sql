-- How runs ended about which there is nothing more to say, which is most of them.
INSERT OR FAIL INTO ends (seq, outcome, attempts, lost, finished_at, number, attempt_end, node_id, fence, started_at,
    job_id, id, dead_letter)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
