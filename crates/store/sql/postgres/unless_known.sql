-- The end of an insert that leaves out what is there, and tells what was not.
ON CONFLICT (id) DO NOTHING
RETURNING id
