-- Whether an attempt that another one follows was recorded under this fencing token.
SELECT 1 FROM attempts WHERE run_id = ?1 AND fence = ?2 AND job_id = ?3
