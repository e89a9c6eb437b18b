-- Jobs that keep their history by a rule of their own, deleted ones included as long as they have any.
SELECT id, definition FROM jobs
WHERE own_retention AND id > ?1
ORDER BY id LIMIT ?2
