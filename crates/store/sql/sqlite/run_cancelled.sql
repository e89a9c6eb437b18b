-- The reason that the cancellation of a run was requested with.
SELECT cancel_code, cancel_text FROM runs WHERE seq = ?1
