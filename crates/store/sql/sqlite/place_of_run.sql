-- What a run asks for, if it asks for something. A place has so many lanes (?2).
SELECT p.words FROM runs AS r JOIN places AS p ON p.id = r.lane / ?2 WHERE r.seq = ?1
