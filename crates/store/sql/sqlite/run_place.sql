-- The lane of a run.
UPDATE runs SET lane = ?2 WHERE seq = ?1
