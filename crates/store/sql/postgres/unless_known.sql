-- The end of an insert that leaves out existing rows. Two inserts of the same runs meet in the
-- order of their ids.
ORDER BY id
ON CONFLICT (id) DO NOTHING
