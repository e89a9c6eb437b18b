-- Runs of a job that have ended and lie next to each other.
DELETE FROM live WHERE job_id = ?1 AND order_at = ?2 AND id BETWEEN ?3 AND ?4
