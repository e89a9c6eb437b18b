-- What the runs of a lane ask for.
SELECT words FROM places WHERE id = ?1
