-- Whether a job depends on this one.
SELECT 1 FROM upstream WHERE depends_on = ?1
