-- How many messages of a queue were sent since a time, of how many that were looked at, and when the first of them was.
SELECT count(*), count(*), min(created_at)
FROM (
    (SELECT created_at FROM history WHERE job_id = $1 AND id >= $2 AND created_at >= $3 ORDER BY id DESC LIMIT $4)
    UNION ALL
    (SELECT created_at FROM runs WHERE job_id = $1 AND order_at >= $3 AND created_at >= $3 LIMIT $4)
) AS sent
