-- What a run asks for, if it asks for something.
SELECT p.words FROM runs AS r JOIN places AS p ON p.id = r.lane / 10 WHERE r.seq = ?1
