-- Jobs that run when others have ended are due now.
UPDATE jobs SET next_run = ?2
WHERE after_dependencies AND state = 'ENABLED' AND next_run IS NULL
    AND id IN (SELECT job_id FROM upstream WHERE depends_on = ?1)
