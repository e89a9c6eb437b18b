-- A job, if it has this version and is not deleted.
SELECT 1 FROM jobs WHERE id = ?1 AND version = ?2 AND state <> 'DELETED'
