-- Divides by zero unless this transaction has written all of these jobs: then none of its changes stays.
SELECT 1 / CASE WHEN count(*) = cardinality($1::uuid[]) THEN 1 ELSE 0 END
FROM jobs j
WHERE j.id = ANY ($1::uuid[]) AND j.xmin = pg_current_xact_id()::xid
