-- Claims the front of a lane, after one time (?3) and up to one run.
DELETE FROM queue WHERE tenant_id = ?1 AND lane = ?2 AND due_at > ?3 AND (due_at, seq) <= (?4, ?5)
