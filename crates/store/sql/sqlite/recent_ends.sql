-- The newest ended runs of a job, those of shards left out.
SELECT newest.id, newest.scheduled_for, ends.outcome, newest.job_version
FROM (
    SELECT seq, id, scheduled_for, job_version FROM runs WHERE job_id = ?1 AND origin NOT IN (6, 8)
    ORDER BY id DESC LIMIT 4 * ?2
) AS newest
CROSS JOIN ends ON ends.seq = newest.seq
ORDER BY newest.id DESC
LIMIT ?2
