-- A deleted job without any run needs no rule any more.
UPDATE jobs SET own_retention = 0
WHERE id = ?1 AND own_retention AND state = 'DELETED' AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.job_id = ?1)
