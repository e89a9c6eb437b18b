-- A run that gets in line anew.
UPDATE live SET order_at = ?4 WHERE job_id = ?1 AND order_at = ?2 AND id = ?3
