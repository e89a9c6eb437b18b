-- The newest executed run of a job; the latest ones are enough.
SELECT newest.scheduled_for, ends.outcome
FROM (SELECT seq, id, scheduled_for, origin FROM runs WHERE job_id = ?1 ORDER BY id DESC LIMIT 100) AS newest
CROSS JOIN ends ON ends.seq = newest.seq
WHERE ends.outcome <= 4 AND newest.origin NOT IN (6, 8)
ORDER BY newest.id DESC
LIMIT 1
