-- Passes the gate if somebody depends on one of these jobs; where nobody does, their runs end beside each other.
UPDATE gate SET fence = fence WHERE EXISTS (SELECT 1 FROM upstream WHERE depends_on = ANY ($1::uuid[]))
