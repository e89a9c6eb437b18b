-- The run waits for something, without its holder.
UPDATE runs SET wait = ?3, wait_until = ?4, turn = turn + 1 WHERE seq = ?1 AND turn = ?2
