-- The run waits for a decision, without its holder.
UPDATE runs SET wait = 7, wait_until = ?3, lost = ?4, turn = turn + 1 WHERE seq = ?1 AND turn = ?2
