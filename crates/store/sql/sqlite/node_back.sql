-- Nodes of a name that fell silent: they have come back as another one. Whether they were to take nothing new.
UPDATE nodes SET gone_at = ?2 WHERE name = ?1 AND id <> ?3 AND buried AND gone_at IS NULL RETURNING draining
