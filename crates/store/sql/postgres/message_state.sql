-- The outcome of a message of a queue that has ended.
SELECT (SELECT outcome FROM history WHERE id = $1 AND job_id = $2) AS outcome
