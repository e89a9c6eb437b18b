-- The run of a message is due again.
UPDATE runs SET due_at = ?2, attempts = ?3, lost = ?4 WHERE seq = ?1
