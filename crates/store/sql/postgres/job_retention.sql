-- Jobs that keep their history by a rule of their own. Deleted ones follow the common rule.
SELECT id, definition FROM jobs
WHERE own_retention AND state <> 'DELETED' AND id > $1
ORDER BY id LIMIT $2::bigint
