-- The short output of an attempt.
INSERT INTO outputs (run_id, number, frames) VALUES (?1, ?2, ?3) ON CONFLICT (run_id, number) DO NOTHING
