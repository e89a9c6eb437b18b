-- The run is due again, without its holder.
UPDATE runs SET due_at = ?3, attempts = ?4, lost = ?5, turn = turn + 1 WHERE seq = ?1 AND turn = ?2
