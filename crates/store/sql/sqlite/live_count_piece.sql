-- How many runs of a job lie between two of them; one more than expected (?5) is enough to know.
SELECT count(*) FROM (
    SELECT 1 FROM live WHERE job_id = ?1 AND order_at = ?2 AND id BETWEEN ?3 AND ?4 LIMIT ?5 + 1)
