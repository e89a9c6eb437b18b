-- The runs that these are parts of.
SELECT run_id, parent_id FROM parts WHERE run_id = ANY ($1::uuid[])
