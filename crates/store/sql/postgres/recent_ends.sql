-- The newest ended runs of each of these jobs, those of shards left out.
SELECT j.job_id, h.id, h.scheduled_for, h.outcome, h.job_version
FROM unnest($1::uuid[]) AS j (job_id)
CROSS JOIN LATERAL (
    SELECT id, scheduled_for, outcome, job_version
    FROM history WHERE job_id BETWEEN j.job_id AND j.job_id AND origin NOT IN (6, 8)
    ORDER BY job_id DESC, id DESC LIMIT $2
) AS h
ORDER BY j.job_id, h.id DESC
