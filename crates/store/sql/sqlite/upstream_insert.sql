-- An edge.
INSERT OR IGNORE INTO upstream (job_id, depends_on) VALUES (?1, ?2)
