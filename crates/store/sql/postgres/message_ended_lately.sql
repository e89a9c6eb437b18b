-- How many messages of a queue ended since a time, of how many ended runs that were looked at, and when the first of them did.
SELECT coalesce(sum(CASE WHEN job_id = $1 THEN 1 ELSE 0 END), 0)::bigint, count(*), min(finished_at)
FROM (SELECT job_id, finished_at FROM history WHERE finished_at >= $2 ORDER BY finished_at DESC LIMIT $3) AS ended
