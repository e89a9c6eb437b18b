-- Whether an attempt that another one follows ended so under this fencing token.
SELECT 1 FROM attempts WHERE run_id = ?1 AND fence = ?2 AND job_id = ?3 AND attempt_end = ?4
