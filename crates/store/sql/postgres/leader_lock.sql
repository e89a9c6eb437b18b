-- Who changes leadership comes one at a time: the next statement sees what the one before has done.
SELECT 1 FROM roles WHERE name = 'LEADER' FOR UPDATE
