-- Partitions whose rows are deleted one by one from now on.
UPDATE history_ranges SET row_by_row = true WHERE number = ANY ($1::integer[])
