-- What a job's latest runs came to; a look at a thousand of them is enough.
SELECT outcome, finished_at
FROM (SELECT outcome, finished_at FROM history WHERE job_id = ?1 ORDER BY id DESC LIMIT 1000)
WHERE outcome <= 4
