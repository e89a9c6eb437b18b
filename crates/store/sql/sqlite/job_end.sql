-- A one-time job whose run has ended.
UPDATE jobs SET state = ?2, next_run = NULL, version = version + 1 WHERE id = ?1 AND state <> 'DELETED'
