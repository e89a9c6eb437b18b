-- Why somebody asked for the end of a run.
SELECT cancel_code, cancel_text FROM runs WHERE seq = ?1
