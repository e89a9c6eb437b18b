-- How runs of a job ended since an hour.
SELECT tenant_id, job_id, hour, measure, class, amount FROM tallies
WHERE tenant_id = ?1 AND job_id = ?2 AND hour >= ?3
