-- A deleted job without any run needs no rule any more.
UPDATE jobs SET own_retention = false
WHERE id = $1 AND own_retention AND state || '' = 'DELETED'
    AND NOT EXISTS (SELECT 1 FROM history h WHERE h.job_id BETWEEN $1 AND $1)
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.job_id = $1)
