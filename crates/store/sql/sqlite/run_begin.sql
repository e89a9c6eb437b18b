-- A run begins under the grant of this turn.
UPDATE runs SET begun = turn + 1 WHERE seq = ?1 AND turn = ?2
