-- Passes the gate if another job depends on one of these jobs; otherwise their runs end beside each other.
UPDATE gate SET fence = fence WHERE EXISTS (SELECT 1 FROM upstream WHERE depends_on = ANY ($1::uuid[]))
