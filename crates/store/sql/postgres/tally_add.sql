-- More of something, if the tally went on in this very transaction.
INSERT INTO tallies AS t (tenant_id, job_id, hour, measure, class, amount)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::smallint[], $5::smallint[], $6::bigint[])
WHERE EXISTS (SELECT 1 FROM tally_cursor c WHERE c.xmin = pg_current_xact_id()::xid)
ON CONFLICT (tenant_id, job_id, hour, measure, class) DO UPDATE SET amount = t.amount + excluded.amount
