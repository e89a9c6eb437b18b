-- The next time moves only from where the plan saw it.
UPDATE jobs SET next_run = ?4 WHERE id = ?1 AND version = ?2 AND next_run = ?3 AND state = 'ENABLED'
