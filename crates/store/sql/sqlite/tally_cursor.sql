-- How far the tally has come.
SELECT finished_at, id FROM tally_cursor
