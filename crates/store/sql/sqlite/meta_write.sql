-- The counters, once in a group of commands that moved them.
UPDATE meta SET fence = ?1, clock = ?2, token = ?3
