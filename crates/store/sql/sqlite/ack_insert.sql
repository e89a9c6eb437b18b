-- A scheduler has seen a run.
INSERT INTO acknowledgements (run_id, epoch, node_id, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING
