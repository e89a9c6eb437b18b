-- A run is locked before the gate, in the order in which a finish takes the two.
SELECT 1 FROM runs WHERE id = $1 FOR UPDATE
