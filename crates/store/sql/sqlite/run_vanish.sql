-- Deletes a run: a tick that was taken back, or one whose retention is over.
DELETE FROM runs WHERE seq = ?1
