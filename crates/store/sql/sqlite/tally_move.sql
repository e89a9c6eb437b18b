-- The tally goes on, if nobody was faster.
UPDATE tally_cursor SET finished_at = ?3, id = ?4 WHERE finished_at = ?1 AND id = ?2
