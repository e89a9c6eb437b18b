-- A run that has ended or vanished.
DELETE FROM live WHERE job_id = ?1 AND order_at = ?2 AND id = ?3
