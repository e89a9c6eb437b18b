-- How many enabled jobs have a next time, but no more than so many.
SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'ENABLED' AND next_run IS NOT NULL LIMIT ?1)
