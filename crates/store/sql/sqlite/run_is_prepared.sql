-- Whether a grant is for a run whose time has not come.
SELECT 1 FROM runs WHERE seq = ?1 AND turn = ?2 AND due_at > ?3
