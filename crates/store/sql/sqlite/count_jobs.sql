-- How many jobs there are.
SELECT count(*) FROM jobs WHERE state <> 'DELETED'
