-- Releases a run unchanged.
UPDATE runs SET turn = turn + 1 WHERE seq = ?1 AND turn = ?2
