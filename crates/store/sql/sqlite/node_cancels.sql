-- Runs whose holder must stop them.
SELECT id FROM runs WHERE node_id = ?1 AND cancel_code IS NOT NULL
