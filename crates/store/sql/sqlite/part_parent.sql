-- The run that this is a part of.
SELECT parent_id FROM parts WHERE run_id = ?1
