-- The record of a deleted job.
DELETE FROM jobs WHERE id = ?1 AND state = 'DELETED'
