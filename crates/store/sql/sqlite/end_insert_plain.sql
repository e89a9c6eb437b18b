-- How a run ended about which there is nothing more to say, which is most of them. What is not bound costs nothing.
INSERT INTO ends (seq, outcome, attempts, lost, finished_at, number, attempt_end, node_id, fence, started_at, dead_letter)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0)
