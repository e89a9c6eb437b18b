-- The short output of an attempt.
SELECT frames FROM outputs WHERE run_id = ?1 AND number = ?2
