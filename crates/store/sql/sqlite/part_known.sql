-- Whether a run was divided.
SELECT 1 FROM parts WHERE parent_id = ?1 LIMIT 1
