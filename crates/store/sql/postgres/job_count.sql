-- How many enabled jobs have a next time, but no more than so many.
SELECT count(*) FROM (SELECT FROM jobs WHERE state = 'ENABLED' AND next_run IS NOT NULL LIMIT $1::bigint) AS j
