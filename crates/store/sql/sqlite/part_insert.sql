-- A part of a run.
INSERT INTO parts (parent_id, number, run_id, shard) VALUES (?1, ?2, ?3, ?4)
