-- Ended runs that began late or never.
INSERT OR IGNORE INTO late (job_id, began, id, seq)
VALUES (?, ?, ?, ?)
