-- Whether a job that this one depends on may have ended since the claim with fence ?2 was made.
SELECT 1 FROM upstream AS u CROSS JOIN last_ends AS l ON l.job_id = u.depends_on
WHERE u.job_id = ?1 AND l.fence >= ?2
