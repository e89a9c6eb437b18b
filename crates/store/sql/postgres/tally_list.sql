-- How runs of some jobs ended since an hour.
SELECT tenant_id, job_id, hour, measure, class, amount FROM tallies
WHERE tenant_id = $1 AND job_id = ANY ($2::uuid[]) AND hour >= $3
