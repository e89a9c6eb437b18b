-- How many messages of a queue ended since a time, of how many ended runs that were looked at, and when the first of them did.
SELECT coalesce(sum(r.job_id = $1), 0), count(*), min(e.finished_at)
FROM (SELECT seq, finished_at FROM ends INDEXED BY ends_finished WHERE finished_at >= $2 ORDER BY finished_at DESC LIMIT $3) AS e
CROSS JOIN runs AS r ON r.seq = e.seq
